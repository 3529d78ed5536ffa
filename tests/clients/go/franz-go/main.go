// franz-go in the client matrix.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"pelton.test/clients/steps"
)

var background = context.Background()

type client struct {
	broker string
	admin  *kadm.Client
	kafka  *kgo.Client
}

func connect(broker string) (steps.Client, error) {
	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker))
	return &client{broker, kadm.NewClient(kafka), kafka}, err
}

func (self *client) Create(topic string, partitions int) error {
	_, err := self.admin.CreateTopic(background, int32(partitions), 1, nil, topic)
	return err
}

func (self *client) Partitions(topic string) (int, error) {
	found, err := self.admin.ListTopics(background, topic)
	if err != nil {
		return 0, err
	}
	return len(found[topic].Partitions), found[topic].Err
}

func (self *client) Delete(topic string) error {
	_, err := self.admin.DeleteTopic(background, topic)
	return err
}

func (self *client) Topics() ([]string, error) {
	found, err := self.admin.ListTopics(background)
	return found.Names(), err
}

func (self *client) Produce(topic string, records []steps.Record) error {
	return self.kafka.ProduceSync(background, convert(topic, records)...).FirstErr()
}

func convert(topic string, records []steps.Record) (all []*kgo.Record) {
	for _, each := range records {
		record := &kgo.Record{Topic: topic, Key: []byte(each.Key), Value: []byte(each.Value)}
		for key, value := range each.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
		}
		all = append(all, record)
	}
	return all
}

func (self *client) Transact(topic, id string, records []steps.Record, commit bool) error {
	producer, err := kgo.NewClient(kgo.SeedBrokers(self.broker), kgo.TransactionalID(id))
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	if err := producer.ProduceSync(background, convert(topic, records)...).FirstErr(); err != nil {
		return err
	}
	return producer.EndTransaction(background, kgo.TransactionEndTry(commit))
}

func (self *client) Read(topic string, found func(steps.Record, error) bool) {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(self.broker), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		found(steps.Record{}, err)
		return
	}
	defer consumer.Close()
	for {
		fetches := consumer.PollFetches(background)
		if err := fetches.Err(); err != nil {
			found(steps.Record{}, err)
			return
		}
		for _, each := range fetches.Records() {
			record := steps.Record{Key: string(each.Key), Value: string(each.Value), Headers: map[string]string{}}
			for _, header := range each.Headers {
				record.Headers[header.Key] = string(header.Value)
			}
			if !found(record, nil) {
				return
			}
		}
	}
}

type member struct {
	steps.Seen
	kafka *kgo.Client
	ended chan struct{}
}

func (self *client) Join(topic, group string) (steps.Member, error) {
	joined := &member{ended: make(chan struct{})}
	partitions := 0
	changed := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			partitions += by * len(changed[topic])
			joined.Assign(partitions)
		}
	}
	var err error
	joined.kafka, err = kgo.NewClient(kgo.SeedBrokers(self.broker), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(changed(1)),
		kgo.OnPartitionsRevoked(changed(-1)), kgo.OnPartitionsLost(changed(-1)))
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(joined.ended)
		for {
			fetches := joined.kafka.PollFetches(background)
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { joined.Read(string(record.Value)) })
		}
	}()
	return joined, nil
}

func (self *member) Leave() error {
	if err := self.kafka.CommitUncommittedOffsets(background); err != nil {
		return err
	}
	self.kafka.Close()
	<-self.ended
	return nil
}

func main() { steps.Run("github.com/twmb/franz-go", connect) }
