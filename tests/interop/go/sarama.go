package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramas struct {
	bootstrap []string
	admin     sarama.ClusterAdmin
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var saramaStrategies = map[string]func() sarama.BalanceStrategy{
	"range":       sarama.NewBalanceStrategyRange,
	"round-robin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":      sarama.NewBalanceStrategySticky,
}

func newSarama(bootstrap string) library {
	made := &saramas{bootstrap: []string{bootstrap}}
	admin, err := sarama.NewClusterAdmin(made.bootstrap, settings())
	must(err)
	made.admin = admin
	return made
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.AllowAutoTopicCreation = false // or who looks for a topic that was deleted would make it again
	config.Net.MaxOpenRequests = 1                 // what its idempotent producer needs
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.MaxWaitTime = heartbeat
	return config
}

func (s *saramas) makeTopic(topic string, partitions int32) {
	must(s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
}

func (s *saramas) topics() (names []string) {
	listed, err := s.admin.ListTopics()
	must(err)
	for name := range listed {
		names = append(names, name)
	}
	return names
}

func (s *saramas) partitionsOf(topic string) int {
	described, err := s.admin.DescribeTopics([]string{topic})
	must(err)
	return len(described[0].Partitions)
}

func (s *saramas) grow(topic string, partitions int32) {
	must(s.admin.CreatePartitions(topic, partitions, nil, false))
}

func (s *saramas) retention(topic string) string {
	entries, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	must(err)
	for _, entry := range entries {
		if entry.Name == "retention.ms" {
			return entry.Value
		}
	}
	return ""
}

func (s *saramas) setRetention(topic, milliseconds string) {
	change := sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet,
		Value:     &milliseconds,
	}
	changes := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": change}
	must(s.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false))
}

func (s *saramas) write(topic, codec string, values []string) {
	config := settings()
	config.Producer.Compression = saramaCodecs[codec]
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	must(err)
	var messages []*sarama.ProducerMessage
	for _, value := range values {
		messages = append(messages, message(topic, sarama.StringEncoder(value), sarama.StringEncoder(value)))
	}
	must(producer.SendMessages(messages))
	must(producer.Close())
}

func message(topic string, key, value sarama.Encoder) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{Topic: topic, Key: key, Value: value}
}

func (s *saramas) strategies() []string { return []string{"range", "round-robin", "sticky"} }

func (s *saramas) read(topic, group, strategy string, wanted int) []string {
	read := newReading(wanted, 2)
	var members sync.WaitGroup
	for number := 0; number < 2; number++ {
		members.Add(1)
		go func(number int) {
			defer members.Done()
			config := settings()
			config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{saramaStrategies[strategy]()}
			s.consume(group, topic, config, &reader{topic, number, read}, read.over)
		}(number)
	}
	members.Wait()
	return read.values()
}

// Be a member of a group until it is over: sarama's call comes back with every rebalance.
func (s *saramas) consume(group, topic string, config *sarama.Config, handler sarama.ConsumerGroupHandler, over func() bool) {
	member, err := sarama.NewConsumerGroup(s.bootstrap, group, config)
	must(err)
	until, cancel := context.WithCancel(context.Background())
	go func() {
		for !over() {
			time.Sleep(heartbeat / 4)
		}
		cancel()
	}()
	for until.Err() == nil {
		must(member.Consume(until, []string{topic}, handler))
	}
	must(member.Close())
}

type reader struct {
	topic  string
	number int
	read   *reading
}

func (r *reader) Setup(session sarama.ConsumerGroupSession) error {
	if len(session.Claims()[r.topic]) > 0 {
		r.read.assigned(r.number)
	}
	return nil
}

func (r *reader) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		r.read.value(string(message.Value))
		session.MarkMessage(message, "")
	}
	return nil
}

func (s *saramas) copy(from, to, group, transactionalID string, wanted int) int {
	config := settings()
	config.Producer.Transaction.ID = transactionalID
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	must(err)
	work := &copier{producer: producer, group: group, to: to, wanted: wanted, deadline: time.Now().Add(limit)}
	s.consume(group, from, config, work, work.over)
	must(producer.Close())
	return work.aborted
}

// One producer copies for all partitions, one transaction after another.
type copier struct {
	lock            sync.Mutex
	producer        sarama.SyncProducer
	group, to       string
	wanted          int
	copied, aborted int
	turn            int
	deadline        time.Time
}

func (c *copier) over() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	if time.Now().After(c.deadline) {
		fail("%d of %d were copied", c.copied, c.wanted)
	}
	return c.copied >= c.wanted
}

func (c *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		var batch []*sarama.ConsumerMessage
		pause := time.After(heartbeat)
	gather:
		for len(batch) < c.wanted/10 {
			select {
			case message, open := <-claim.Messages():
				if !open {
					break gather
				}
				batch = append(batch, message)
			case <-pause:
				break gather
			}
		}
		if session.Context().Err() != nil {
			return nil
		}
		for len(batch) > 0 && !c.transaction(batch) {
		}
	}
}

// Whether it was committed: every second one is aborted.
func (c *copier) transaction(batch []*sarama.ConsumerMessage) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	must(c.producer.BeginTxn())
	var messages []*sarama.ProducerMessage
	for _, each := range batch {
		messages = append(messages, message(c.to, sarama.ByteEncoder(each.Key), sarama.ByteEncoder(each.Value)))
	}
	must(c.producer.SendMessages(messages))
	must(c.producer.AddMessageToTxn(batch[len(batch)-1], c.group, nil))
	c.turn++
	if c.turn%2 == 1 {
		must(c.producer.AbortTxn())
		c.aborted++
		return false
	}
	must(c.producer.CommitTxn())
	c.copied += len(batch)
	return true
}

func (s *saramas) all(topic string, committed bool, wanted int) (values []string) {
	config := settings()
	if committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(s.bootstrap, config)
	must(err)
	numbers, err := consumer.Partitions(topic)
	must(err)
	messages, done := make(chan *sarama.ConsumerMessage), make(chan struct{})
	var partitions []sarama.PartitionConsumer
	for _, number := range numbers {
		partition, err := consumer.ConsumePartition(topic, number, sarama.OffsetOldest)
		must(err)
		partitions = append(partitions, partition)
		go func() {
			for message := range partition.Messages() {
				select {
				case messages <- message:
				case <-done:
				}
			}
		}()
	}
	late := time.After(limit)
	for len(values) < wanted {
		select {
		case message := <-messages:
			values = append(values, string(message.Value))
		case <-late:
			fail("%d of %d were read from %s", len(values), wanted, topic)
		}
	}
	close(done)
	for _, partition := range partitions {
		must(partition.Close())
	}
	must(consumer.Close())
	return values
}

func (s *saramas) ends(topic string) (first, last int64) {
	s.eachPartition(topic, func(client sarama.Client, number int32) {
		start, err := client.GetOffset(topic, number, sarama.OffsetOldest)
		must(err)
		end, err := client.GetOffset(topic, number, sarama.OffsetNewest)
		must(err)
		first, last = first+start, last+end
	})
	return first, last
}

func (s *saramas) eachPartition(topic string, look func(client sarama.Client, number int32)) {
	client, err := sarama.NewClient(s.bootstrap, settings())
	must(err)
	numbers, err := client.Partitions(topic)
	must(err)
	for _, number := range numbers {
		look(client, number)
	}
	must(client.Close())
}

func (s *saramas) groups() (names []string) {
	listed, err := s.admin.ListConsumerGroups()
	must(err)
	for name := range listed {
		names = append(names, name)
	}
	return names
}

func (s *saramas) stateOf(group string) string {
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	must(err)
	if described[0].Err != sarama.ErrNoError {
		must(described[0].Err)
	}
	return described[0].State
}

func (s *saramas) committedOffsets(group, topic string) (sum int64) {
	answer, err := s.admin.ListConsumerGroupOffsets(group, nil)
	must(err)
	for _, block := range answer.Blocks[topic] {
		expect(fmt.Sprint(sarama.ErrNoError), fmt.Sprint(block.Err))
		sum += block.Offset
	}
	return sum
}

func (s *saramas) deleteRecords(topic string) {
	ends := map[int32]int64{}
	s.eachPartition(topic, func(client sarama.Client, number int32) {
		end, err := client.GetOffset(topic, number, sarama.OffsetNewest)
		must(err)
		ends[number] = end
	})
	must(s.admin.DeleteRecords(topic, ends))
}

func (s *saramas) deleteGroup(group string) error { return s.admin.DeleteConsumerGroup(group) }

func (s *saramas) deleteTopic(topic string) { must(s.admin.DeleteTopic(topic)) }

func (s *saramas) close() { must(s.admin.Close()) }
