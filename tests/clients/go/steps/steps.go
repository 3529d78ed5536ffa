// Package steps runs the steps of the client matrix, which ../../matrix describes, with whatever client it is given.
package steps

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	limit = 30 * time.Second // for whatever is waited for
	count = 200              // records that the step produce sends
)

// Record is a record with its headers. A client gives back all of it, in any order of the records.
type Record struct {
	Key, Value string
	Headers    map[string]string
}

// Client is what a program brings: a few calls in terms of its library.
type Client interface {
	Create(topic string, partitions int) error
	// Partitions counts the partitions of a topic by describing it.
	Partitions(topic string) (int, error)
	Delete(topic string) error
	Topics() ([]string, error)
	Produce(topic string, records []Record) error
	// Read calls found with the committed records of a topic from its beginning, until found returns false or a failure.
	Read(topic string, found func(Record, error) bool)
	Join(topic, group string) (Member, error)
	// Transact sends the records in a transaction of the producer with that id and ends it.
	Transact(topic, id string, records []Record, commit bool) error
}

// Member is one consumer of a group.
type Member interface {
	State() (partitions int, values []string)
	// Leave commits what was read and leaves the group.
	Leave() error
}

// Seen is what a member has and has read, for members that learn it on goroutines of their own.
type Seen struct {
	lock       sync.Mutex
	partitions int
	values     []string
}

func (seen *Seen) Assign(partitions int) {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	seen.partitions = partitions
}

func (seen *Seen) Read(value string) {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	seen.values = append(seen.values, value)
}

func (seen *Seen) State() (int, []string) {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	return seen.partitions, slices.Clone(seen.values)
}

// ErrNotOffered says that a library has no way to do a step.
var ErrNotOffered = errors.New("not offered")

// Run runs all steps with a client made for a broker, and prints the version of the client's module and how each step went.
func Run(module string, connect func(broker string) (Client, error)) {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "usage: %s HOST:PORT NAME\n", os.Args[0])
		os.Exit(2)
	}
	fmt.Println("version", version(module))
	client, err := connect(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run := &run{Client: client, name: os.Args[2]}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"admin", run.admin}, {"produce", run.produce}, {"headers", run.headers},
		{"group", run.group}, {"rebalance", run.rebalance}, {"transaction", run.transaction},
	} {
		switch err := step.run(); {
		case err == nil:
			fmt.Println(step.name, "ok")
		case errors.Is(err, ErrNotOffered):
			fmt.Println(step.name, "n.a.")
		default:
			fmt.Printf("%s fail %q\n", step.name, err)
		}
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	return "unknown"
}

type run struct {
	Client
	name string
	read []Record
}

func (run *run) admin() error {
	topic := run.name + "-gone"
	if err := run.Create(topic, 3); err != nil {
		return err
	}
	if partitions, err := run.Partitions(topic); err != nil || partitions != 3 {
		return fmt.Errorf("described with %d partitions: %v", partitions, err)
	}
	if err := run.Delete(topic); err != nil {
		return err
	}
	return wait("the topic is gone", func() bool {
		topics, err := run.Topics()
		return err == nil && !slices.Contains(topics, topic)
	})
}

func (run *run) produce() (err error) {
	if err = run.Create(run.name, 4); err != nil {
		return err
	}
	if err = run.Produce(run.name, sent()); err != nil {
		return err
	}
	if run.read, err = run.collect(run.name, count); err != nil {
		return err
	}
	contents := func(each Record) string { return each.Key + "=" + each.Value }
	return equal(texts(run.read, contents), texts(sent(), contents))
}

func (run *run) headers() error {
	headers := func(each Record) string { return fmt.Sprint(each.Key, each.Headers) }
	return equal(texts(run.read, headers), texts(sent(), headers))
}

func (run *run) group() error {
	group := run.name + "-group"
	first, err := run.Join(run.name, group)
	if err != nil {
		return err
	}
	if err := wait("the first member reads all", func() bool { return len(values(first)) >= count }); err != nil {
		return err
	}
	if err := first.Leave(); err != nil {
		return err
	}
	if err := run.Produce(run.name, records("later", 1)); err != nil {
		return err
	}
	second, err := run.Join(run.name, group)
	if err != nil {
		return err
	}
	if err := wait("the second member reads", func() bool { return len(values(second)) > 0 }); err != nil {
		return err
	}
	if err := equal(values(second), []string{"later-000"}); err != nil {
		return err
	}
	return second.Leave()
}

func (run *run) rebalance() error {
	topic := run.name + "-shared"
	if err := run.Create(topic, 4); err != nil {
		return err
	}
	first, err := run.Join(topic, topic)
	if err != nil {
		return err
	}
	if err := wait("the first member has all", func() bool { return partitions(first) == 4 }); err != nil {
		return err
	}
	second, err := run.Join(topic, topic)
	if err != nil {
		return err
	}
	if err := wait("they share", func() bool { return partitions(first) == 2 && partitions(second) == 2 }); err != nil {
		return err
	}
	shared := records("shared", 40)
	if err := run.Produce(topic, shared); err != nil {
		return err
	}
	both := func() []string { return append(values(first), values(second)...) }
	if err := wait("they read all", func() bool { return len(both()) >= len(shared) }); err != nil {
		return err
	}
	if err := equal(both(), texts(shared, value)); err != nil {
		return err
	}
	if err := second.Leave(); err != nil {
		return err
	}
	if err := wait("the first has all again", func() bool { return partitions(first) == 4 }); err != nil {
		return err
	}
	return first.Leave()
}

func (run *run) transaction() error {
	topic := run.name + "-transactions"
	if err := run.Create(topic, 1); err != nil {
		return err
	}
	committed := records("committed", 10)
	if err := run.Transact(topic, topic, records("aborted", 10), false); err != nil {
		return err
	}
	if err := run.Transact(topic, topic, committed, true); err != nil {
		return err
	}
	read, err := run.collect(topic, len(committed))
	if err != nil {
		return err
	}
	return equal(texts(read, value), texts(committed, value))
}

// collect reads the first records of a topic.
func (run *run) collect(topic string, count int) (all []Record, err error) {
	type one struct {
		Record
		error
	}
	found, enough := make(chan one), make(chan struct{})
	defer close(enough)
	go run.Read(topic, func(record Record, err error) bool {
		select {
		case found <- one{record, err}:
			return true
		case <-enough:
			return false
		}
	})
	late := time.After(limit)
	for len(all) < count {
		select {
		case each := <-found:
			if each.error != nil {
				return nil, each.error
			}
			all = append(all, each.Record)
		case <-late:
			return nil, fmt.Errorf("read %d records of %d in %v", len(all), count, limit)
		}
	}
	return all, nil
}

func sent() (all []Record) {
	for i := range count {
		number := fmt.Sprint(i)
		all = append(all, Record{"key-" + number, "value-" + number, map[string]string{"number": number, "empty": ""}})
	}
	return all
}

func records(word string, count int) (all []Record) {
	for i := range count {
		text := fmt.Sprintf("%s-%03d", word, i)
		all = append(all, Record{Key: text, Value: text})
	}
	return all
}

func value(record Record) string { return record.Value }

func texts(records []Record, text func(Record) string) (all []string) {
	for _, each := range records {
		all = append(all, text(each))
	}
	return all
}

func values(member Member) []string {
	_, values := member.State()
	return values
}

func partitions(member Member) int {
	partitions, _ := member.State()
	return partitions
}

func equal(got, expected []string) error {
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		return fmt.Errorf("got %d %v, expected %d %v", len(got), got, len(expected), expected)
	}
	return nil
}

func wait(what string, holds func() bool) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("not in %v: %s", limit, what)
}
