package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	bootstrap string
	admin     *kadm.Client
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var franzStrategies = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"round-robin":        kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func newFranz(bootstrap string) library {
	made := &franz{bootstrap: bootstrap}
	made.admin = kadm.NewClient(made.client())
	return made
}

func (f *franz) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(f.bootstrap))...)
	must(err)
	return client
}

func within() context.Context {
	bounded, cancel := context.WithCancel(context.Background())
	time.AfterFunc(limit, cancel)
	return bounded
}

func (f *franz) makeTopic(topic string, partitions int32) {
	made, err := f.admin.CreateTopic(within(), partitions, 1, nil, topic)
	must(err)
	must(made.Err)
}

func (f *franz) topics() []string {
	listed, err := f.admin.ListTopics(within())
	must(err)
	return listed.Names()
}

func (f *franz) partitionsOf(topic string) int {
	listed, err := f.admin.ListTopics(within(), topic)
	must(err)
	return len(listed[topic].Partitions)
}

func (f *franz) grow(topic string, partitions int32) {
	grown, err := f.admin.UpdatePartitions(within(), int(partitions), topic)
	must(err)
	must(grown[topic].Err)
}

func (f *franz) retention(topic string) string {
	described, err := f.admin.DescribeTopicConfigs(within(), topic)
	must(err)
	resource, err := described.On(topic, nil)
	must(err)
	for _, config := range resource.Configs {
		if config.Key == "retention.ms" {
			return config.MaybeValue()
		}
	}
	return ""
}

func (f *franz) setRetention(topic, milliseconds string) {
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: &milliseconds}
	altered, err := f.admin.AlterTopicConfigs(within(), []kadm.AlterConfig{change}, topic)
	must(err)
	must(altered[0].Err)
}

// Idempotent, as franz-go is unless it is told otherwise.
func (f *franz) write(topic, codec string, values []string) {
	client := f.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(franzCodecs[codec]))
	defer client.Close()
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, kgo.KeyStringRecord(value, value))
	}
	must(client.ProduceSync(within(), records...).FirstErr())
}

func (f *franz) strategies() []string {
	return []string{"range", "round-robin", "sticky", "cooperative-sticky"}
}

func (f *franz) read(topic, group, strategy string, wanted int) []string {
	read := newReading(wanted, 2)
	var members sync.WaitGroup
	for number := 0; number < 2; number++ {
		members.Add(1)
		go func(number int) {
			defer members.Done()
			client := f.client(
				kgo.ConsumerGroup(group),
				kgo.ConsumeTopics(topic),
				kgo.Balancers(franzStrategies[strategy]),
				kgo.HeartbeatInterval(heartbeat),
				kgo.DisableAutoCommit(),
				kgo.BlockRebalanceOnPoll(),
				kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
					if len(got[topic]) > 0 {
						read.assigned(number)
					}
				}),
				kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, _ map[string][]int32) {
					must(client.CommitUncommittedOffsets(ctx))
				}),
			)
			for !read.over() {
				soon, cancel := context.WithTimeout(context.Background(), heartbeat)
				fetched := client.PollFetches(soon)
				cancel()
				if !errors.Is(fetched.Err0(), context.DeadlineExceeded) {
					mustBeRead(fetched)
				}
				fetched.EachRecord(func(record *kgo.Record) { read.value(string(record.Value)) })
				client.AllowRebalance()
			}
			must(client.CommitUncommittedOffsets(within()))
			client.CloseAllowingRebalance()
		}(number)
	}
	members.Wait()
	return read.values()
}

func (f *franz) copy(from, to, group, transactionalID string, wanted int) int {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.bootstrap),
		kgo.TransactionalID(transactionalID),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from),
		kgo.DefaultProduceTopic(to),
	)
	must(err)
	defer session.Close()
	copied, aborted, bounded := 0, 0, within()
	for turn := 0; copied < wanted; turn++ {
		fetched := session.PollRecords(bounded, wanted/10)
		mustBeRead(fetched)
		must(session.Begin())
		fetched.EachRecord(func(record *kgo.Record) {
			session.Produce(bounded, kgo.KeySliceRecord(record.Key, record.Value), func(_ *kgo.Record, err error) { must(err) })
		})
		how := kgo.TryCommit
		if turn%2 == 0 {
			how = kgo.TryAbort
			must(session.Client().Flush(bounded))
		}
		committed, err := session.End(bounded, how)
		must(err)
		if committed {
			copied += fetched.NumRecords()
		} else {
			aborted++
		}
	}
	return aborted
}

func (f *franz) all(topic string, committed bool, wanted int) []string {
	options := []kgo.Opt{kgo.ConsumeTopics(topic)}
	if committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client := f.client(options...)
	defer client.Close()
	var values []string
	bounded := within()
	for len(values) < wanted {
		fetched := client.PollFetches(bounded)
		mustBeRead(fetched)
		fetched.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func mustBeRead(fetched kgo.Fetches) {
	for _, fault := range fetched.Errors() {
		must(fault.Err)
	}
}

func (f *franz) ends(topic string) (first, last int64) {
	starts, err := f.admin.ListStartOffsets(within(), topic)
	must(err)
	ends, err := f.admin.ListEndOffsets(within(), topic)
	must(err)
	starts.Each(func(offset kadm.ListedOffset) { must(offset.Err); first += offset.Offset })
	ends.Each(func(offset kadm.ListedOffset) { must(offset.Err); last += offset.Offset })
	return first, last
}

func (f *franz) groups() []string {
	listed, err := f.admin.ListGroups(within())
	must(err)
	return listed.Groups()
}

func (f *franz) stateOf(group string) string {
	described, err := f.admin.DescribeGroups(within(), group)
	must(err)
	must(described[group].Err)
	return described[group].State
}

func (f *franz) committedOffsets(group, topic string) (sum int64) {
	offsets, err := f.admin.FetchOffsets(within(), group)
	must(err)
	for _, offset := range offsets[topic] {
		must(offset.Err)
		sum += offset.At
	}
	return sum
}

func (f *franz) deleteRecords(topic string) {
	ends, err := f.admin.ListEndOffsets(within(), topic)
	must(err)
	deleted, err := f.admin.DeleteRecords(within(), ends.Offsets())
	must(err)
	deleted.Each(func(each kadm.DeleteRecordsResponse) { must(each.Err) })
}

func (f *franz) deleteGroup(group string) error {
	deleted, err := f.admin.DeleteGroups(within(), group)
	must(err)
	return deleted[group].Err
}

func (f *franz) deleteTopic(topic string) {
	deleted, err := f.admin.DeleteTopics(within(), topic)
	must(err)
	must(deleted[topic].Err)
}

func (f *franz) close() { f.admin.Close() }
