// Sarama in the client matrix.
package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
	"pelton.test/clients/steps"
)

type client struct {
	broker string
	admin  sarama.ClusterAdmin
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	// Without it sarama 1.38 commits offsets in a version that Apache Kafka 4 has no more, and says nothing when that fails.
	config.Consumer.Offsets.Retention = 24 * time.Hour
	return config
}

func connect(broker string) (steps.Client, error) {
	admin, err := sarama.NewClusterAdmin([]string{broker}, config())
	return &client{broker, admin}, err
}

func (self *client) Create(topic string, partitions int) error {
	return self.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

func (self *client) Partitions(topic string) (int, error) {
	found, err := self.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	return len(found[0].Partitions), nil
}

func (self *client) Delete(topic string) error { return self.admin.DeleteTopic(topic) }

func (self *client) Topics() (names []string, err error) {
	topics, err := self.admin.ListTopics()
	for name := range topics {
		names = append(names, name)
	}
	return names, err
}

func (self *client) Produce(topic string, records []steps.Record) error {
	producer, err := sarama.NewSyncProducer([]string{self.broker}, config())
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(messages(topic, records))
}

func messages(topic string, records []steps.Record) (all []*sarama.ProducerMessage) {
	for _, each := range records {
		message := &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(each.Key), Value: sarama.StringEncoder(each.Value),
		}
		for key, value := range each.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(key), Value: []byte(value)})
		}
		all = append(all, message)
	}
	return all
}

func (self *client) Transact(topic, id string, records []steps.Record, commit bool) error {
	config := config()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{self.broker}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	if err := producer.SendMessages(messages(topic, records)); err != nil {
		return err
	}
	if !commit {
		return producer.AbortTxn()
	}
	return producer.CommitTxn()
}

func (self *client) Read(topic string, found func(steps.Record, error) bool) {
	consumer, err := sarama.NewConsumer([]string{self.broker}, config())
	if err != nil {
		found(steps.Record{}, err)
		return
	}
	partitions, err := consumer.Partitions(topic)
	if err != nil {
		found(steps.Record{}, err)
	}
	for _, partition := range partitions {
		claim, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			found(steps.Record{}, err)
			return
		}
		go func() {
			for message := range claim.Messages() {
				record := steps.Record{Key: string(message.Key), Value: string(message.Value), Headers: map[string]string{}}
				for _, header := range message.Headers {
					record.Headers[string(header.Key)] = string(header.Value)
				}
				if !found(record, nil) {
					break
				}
			}
			claim.AsyncClose()
		}()
	}
}

type member struct {
	steps.Seen
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	ended  chan error
}

func (self *client) Join(topic, group string) (steps.Member, error) {
	consumer, err := sarama.NewConsumerGroup([]string{self.broker}, group, config())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{group: consumer, cancel: cancel, ended: make(chan error, 1)}
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = consumer.Consume(ctx, []string{topic}, joined)
		}
		joined.ended <- err
	}()
	return joined, nil
}

func (self *member) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		self.Assign(len(partitions))
	}
	return nil
}

func (self *member) Cleanup(sarama.ConsumerGroupSession) error {
	self.Assign(0)
	return nil
}

func (self *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		self.Read(string(message.Value))
	}
	return nil
}

func (self *member) Leave() error {
	self.cancel()
	if err := <-self.ended; err != nil {
		return err
	}
	return self.group.Close()
}

func main() { steps.Run("github.com/IBM/sarama", connect) }
