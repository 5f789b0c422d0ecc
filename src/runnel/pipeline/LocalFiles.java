/*
 * Hadoop's files of this machine, with permissions set by a call of the system.
 *
 * Without a library in C, which the packages of Spark do not have, Hadoop starts a `chmod` for every file that it
 * makes, and waits for it. Java itself can do the same since its version 7. All else stays as it is: the names of
 * the files, their content, their checksums.
 */

package runnel;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new WithoutProcesses());
    }

    public static class WithoutProcesses extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission); // Java has no name for it
            } else {
                Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
