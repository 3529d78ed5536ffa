// segmentio/kafka-go in the client matrix. Its producers are not transactional.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
	"pelton.test/clients/steps"
)

var background = context.Background()

type client struct {
	broker string
	kafka  *kafka.Client
}

func connect(broker string) (steps.Client, error) {
	return &client{broker, &kafka.Client{Addr: kafka.TCP(broker), Timeout: 10 * time.Second}}, nil
}

func (self *client) Create(topic string, partitions int) error {
	created, err := self.kafka.CreateTopics(background, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err != nil {
		return err
	}
	return created.Errors[topic]
}

func (self *client) metadata(topics ...string) ([]kafka.Topic, error) {
	found, err := self.kafka.Metadata(background, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	return found.Topics, nil
}

func (self *client) Partitions(topic string) (int, error) {
	found, err := self.metadata(topic)
	if err != nil {
		return 0, err
	}
	return len(found[0].Partitions), found[0].Error
}

func (self *client) Delete(topic string) error {
	deleted, err := self.kafka.DeleteTopics(background, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return deleted.Errors[topic]
}

func (self *client) Topics() (names []string, err error) {
	found, err := self.metadata()
	for _, topic := range found {
		names = append(names, topic.Name)
	}
	return names, err
}

func (self *client) Produce(topic string, records []steps.Record) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(self.broker), Topic: topic, RequiredAcks: kafka.RequireAll, Balancer: &kafka.Hash{},
		BatchTimeout: 10 * time.Millisecond,
	}
	var messages []kafka.Message
	for _, each := range records {
		message := kafka.Message{Key: []byte(each.Key), Value: []byte(each.Value)}
		for key, value := range each.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: key, Value: []byte(value)})
		}
		messages = append(messages, message)
	}
	return errors.Join(writer.WriteMessages(background, messages...), writer.Close())
}

func (self *client) Transact(string, string, []steps.Record, bool) error { return steps.ErrNotOffered }

func (self *client) Read(topic string, found func(steps.Record, error) bool) {
	partitions, err := self.Partitions(topic)
	if err != nil {
		found(steps.Record{}, err)
	}
	for partition := range partitions {
		go self.read(topic, partition, found)
	}
}

func (self *client) read(topic string, partition int, found func(steps.Record, error) bool) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{self.broker}, Topic: topic, Partition: partition, MaxWait: 100 * time.Millisecond,
		IsolationLevel: kafka.ReadCommitted,
	})
	defer reader.Close()
	for {
		message, err := reader.ReadMessage(background)
		record := steps.Record{Key: string(message.Key), Value: string(message.Value), Headers: map[string]string{}}
		for _, header := range message.Headers {
			record.Headers[header.Key] = string(header.Value)
		}
		if !found(record, err) || err != nil {
			return
		}
	}
}

type member struct {
	steps.Seen
	client *client
	topic  string
	group  *kafka.ConsumerGroup
	ended  chan error
}

func (self *client) Join(topic, group string) (steps.Member, error) {
	consumer, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{self.broker}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 500 * time.Millisecond,
	})
	joined := &member{client: self, topic: topic, group: consumer, ended: make(chan error, 1)}
	if err == nil {
		go joined.run()
	}
	return joined, err
}

// run takes part in one generation after another.
func (self *member) run() {
	for {
		generation, err := self.group.Next(background)
		if errors.Is(err, kafka.ErrGroupClosed) {
			err = nil
		}
		if generation == nil {
			self.ended <- err
			return
		}
		assigned := generation.Assignments[self.topic]
		self.Assign(len(assigned))
		for _, each := range assigned {
			generation.Start(func(ctx context.Context) { self.follow(ctx, generation, each) })
		}
	}
}

func (self *member) follow(ctx context.Context, generation *kafka.Generation, assigned kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{self.client.broker}, Topic: self.topic, Partition: assigned.ID, MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	reader.SetOffset(assigned.Offset)
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		if generation.CommitOffsets(map[string]map[int]int64{self.topic: {assigned.ID: message.Offset + 1}}) != nil {
			return
		}
		self.Read(string(message.Value))
	}
}

func (self *member) Leave() error {
	if err := self.group.Close(); err != nil {
		return err
	}
	return <-self.ended
}

func main() { steps.Run("github.com/segmentio/kafka-go", connect) }
