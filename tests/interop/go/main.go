// Two Kafka clients of Go, franz-go and sarama, on one broker: what one of them writes the other one reads.
//
//	go run . 127.0.0.1:9092
//
// Each makes topics, writes with every compression as an idempotent producer, reads in groups of two members by each of
// its strategies, copies in transactions some of which it aborts, and looks at all that as an administrator. A line is
// printed for each step that did what it should; the first that did not ends the program.
package main

import (
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"time"
)

const (
	partitions = 4
	perCodec   = 100
	heartbeat  = 200 * time.Millisecond
	limit      = 60 * time.Second // of one step
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// What both libraries can do, each in its own way.
type library interface {
	makeTopic(topic string, partitions int32)
	topics() []string
	partitionsOf(topic string) int
	grow(topic string, partitions int32)
	retention(topic string) string
	setRetention(topic, milliseconds string)
	write(topic, codec string, values []string)
	// Two members read the whole topic, commit, and leave.
	read(topic, group, strategy string, wanted int) []string
	strategies() []string
	// Copy in transactions, of which every second is aborted and tried again; how many were.
	copy(from, to, group, transactionalID string, wanted int) int
	all(topic string, committed bool, wanted int) []string
	ends(topic string) (first, last int64)
	groups() []string
	stateOf(group string) string
	committedOffsets(group, topic string) int64
	deleteRecords(topic string)
	deleteGroup(group string) error
	deleteTopic(topic string)
	close()
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: interop HOST:PORT")
	}
	time.AfterFunc(10*limit, func() { log.Fatal("the program took too long") })
	franz, sarama := newFranz(os.Args[1]), newSarama(os.Args[1])
	journey("franz-go", franz, sarama)
	journey("sarama", sarama, franz)
	franz.close()
	sarama.close()
}

// Everything that one library can do, before the eyes of the other.
func journey(name string, own, other library) {
	from, to, copier := name+"-from", name+"-to", name+"-copier"

	own.makeTopic(from, partitions)
	own.makeTopic(to, partitions-1)
	own.grow(to, partitions)
	own.setRetention(to, "86400000")
	soon(fmt.Sprint(partitions), func() string { return fmt.Sprint(other.partitionsOf(to)) })
	soon("86400000", func() string { return other.retention(to) })
	soon("[true true]", func() string { return fmt.Sprint(among(own.topics(), from, to)) })
	done(name, "made topics")

	var values []string
	for _, codec := range codecs {
		var some []string
		for number := 0; number < perCodec; number++ {
			some = append(some, fmt.Sprintf("%s-%d", codec, number))
		}
		own.write(from, codec, some)
		values = append(values, some...)
	}
	same(values, other.all(from, false, len(values)))
	first, last := other.ends(from)
	expect(fmt.Sprintf("0 %d", len(values)), fmt.Sprint(first, last))
	done(name, "wrote with", strings.Join(codecs, ", "))

	for _, strategy := range own.strategies() {
		group := name + "-" + strategy
		same(values, own.read(from, group, strategy, len(values)))
		expect(fmt.Sprint(len(values)), fmt.Sprint(other.committedOffsets(group, from)))
		expect("Empty", other.stateOf(group))
		done(name, "read by", strategy)
	}

	aborted := own.copy(from, to, copier, name+"-transactions", len(values))
	same(values, other.all(to, true, len(values)))
	same(values, own.all(to, true, len(values)))
	if everything := len(other.all(to, false, len(values)+1)); aborted == 0 || everything <= len(values) {
		fail("%d transactions were aborted, and the topic has %d records", aborted, everything)
	}
	expect(fmt.Sprint(len(values)), fmt.Sprint(own.committedOffsets(copier, from)))
	done(name, "copied in transactions")

	expect("[true]", fmt.Sprint(among(own.groups(), copier)))
	must(own.deleteGroup(copier))
	if own.deleteGroup(copier) == nil {
		fail("a group was deleted twice")
	}
	own.deleteRecords(from)
	first, last = other.ends(from)
	expect(fmt.Sprint(last), fmt.Sprint(first))
	own.deleteTopic(from)
	own.deleteTopic(to)
	soon("[false false]", func() string { return fmt.Sprint(among(own.topics(), from, to)) })
	done(name, "deleted what it made")
}

func done(words ...string) { fmt.Println(strings.Join(words, " ")) }

func among(all []string, wanted ...string) []bool {
	there := map[string]bool{}
	for _, each := range all {
		there[each] = true
	}
	var found []bool
	for _, each := range wanted {
		found = append(found, there[each])
	}
	return found
}

// The same values as often as before, in any order.
func same(wanted, got []string) {
	wanted, got = append([]string{}, wanted...), append([]string{}, got...)
	sort.Strings(wanted)
	sort.Strings(got)
	if strings.Join(wanted, " ") != strings.Join(got, " ") {
		complain("%d values were expected, and %d came: %v", len(wanted), len(got), got)
	}
}

func expect(wanted, got string) {
	if wanted != got {
		complain("%q was expected, and %q came", wanted, got)
	}
}

// As `expect`, of what Apache Kafka tells a moment after it was changed.
func soon(wanted string, look func() string) {
	got := look()
	for deadline := time.Now().Add(limit); got != wanted && time.Now().Before(deadline); got = look() {
		time.Sleep(heartbeat / 4)
	}
	if got != wanted {
		complain("%q was expected, and %q came", wanted, got)
	}
}

func must(err error) {
	if err != nil {
		complain("%v", err)
	}
}

func fail(words string, values ...interface{}) { complain(words, values...) }

// Of the caller of who calls it.
func complain(words string, values ...interface{}) {
	log.SetFlags(log.Lshortfile)
	_ = log.Output(3, fmt.Sprintf(words, values...))
	os.Exit(1)
}
