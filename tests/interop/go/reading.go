package main

import (
	"sync"
	"time"
)

// What the members of a group have read, together. It is over when every value is there and each member had a part.
// A value may come twice: what was read and not committed when the second member came is read again.
type reading struct {
	lock     sync.Mutex
	wanted   int
	members  int
	found    map[string]bool
	had      map[int]bool
	deadline time.Time
}

func newReading(wanted, members int) *reading {
	return &reading{
		wanted:   wanted,
		members:  members,
		found:    map[string]bool{},
		had:      map[int]bool{},
		deadline: time.Now().Add(limit),
	}
}

func (r *reading) value(value string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.found[value] = true
}

func (r *reading) assigned(member int) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.had[member] = true
}

func (r *reading) over() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if time.Now().After(r.deadline) {
		fail("%d of %d values were read, by %d of %d members", len(r.found), r.wanted, len(r.had), r.members)
	}
	return len(r.found) == r.wanted && len(r.had) == r.members
}

func (r *reading) values() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	var values []string
	for value := range r.found {
		values = append(values, value)
	}
	return values
}
