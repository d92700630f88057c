// SPDX-License-Identifier: Apache-2.0

// The crowd for fgprof: busy goroutines that count their work, and blocked
// ones in five kinds of wait, each below some frames of recursion. What
// tests/programs/crowd.c is to native profilers.
//
// crowd-go BUSY BLOCKED DEPTH SECONDS FILE
//
// Prints "ready PID", then every 100 ms "MONO_NS OPERATIONS CPU_NS", the last
// of the whole process. SIGUSR1 starts fgprof, SIGUSR2 stops it; FILE then
// holds folded stacks.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/felixge/fgprof"
)

var (
	anchor uint64
	done   uint64
	ready  sync.WaitGroup
	never  = make(chan int)
	nobody = make(chan int)
	mutex  sync.Mutex
)

//go:noinline
func hashBlock() {
	hash := atomic.LoadUint64(&anchor)
	for i := uint64(0); i < 10000; i++ {
		hash = (hash ^ i) * 1099511628211
	}
	atomic.StoreUint64(&anchor, hash)
	atomic.AddUint64(&done, 1)
}

//go:noinline
func block(kind int) {
	ready.Done()
	switch kind % 5 {
	case 0:
		mutex.Lock()
	case 1:
		time.Sleep(100000 * time.Second)
	case 2:
		<-never
	case 3:
		select {
		case <-never:
		case <-nobody:
		}
	default:
		var group sync.WaitGroup
		group.Add(1)
		group.Wait()
	}
}

//go:noinline
func descend(depth, what int, isBusy bool) {
	switch {
	case depth > 0:
		descend(depth-1, what, isBusy)
	case !isBusy:
		block(what)
	default:
		for {
			hashBlock()
		}
	}
	atomic.AddUint64(&anchor, 1)
}

func beBusy(depth, what int)    { descend(depth, what, true) }
func beBlocked(depth, what int) { descend(depth, what, false) }

func number(index int) int {
	value, err := strconv.Atoi(os.Args[index])
	if err != nil {
		panic(err)
	}
	return value
}

func obey(path string) {
	var stop func() error
	var file *os.File
	orders := make(chan os.Signal, 1)

	signal.Notify(orders, syscall.SIGUSR1, syscall.SIGUSR2)
	for order := range orders {
		if order == syscall.SIGUSR1 {
			file, _ = os.Create(path + ".part")
			stop = fgprof.Start(file, fgprof.FormatFolded)
		} else if stop != nil {
			if err := stop(); err != nil {
				panic(err)
			}
			file.Close()
			os.Rename(path+".part", path)
			stop = nil
		}
	}
}

func report() {
	var usage syscall.Rusage
	var now syscall.Timespec

	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, // CLOCK_MONOTONIC
		uintptr(unsafe.Pointer(&now)), 0)
	fmt.Println(now.Nano(), atomic.LoadUint64(&done),
		usage.Utime.Nano()+usage.Stime.Nano())
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr,
			"usage: crowd-go BUSY BLOCKED DEPTH SECONDS FILE")
		os.Exit(2)
	}
	depth := number(3)
	mutex.Lock()
	ready.Add(number(2))
	for i := 0; i < number(2); i++ {
		go beBlocked(depth, i)
	}
	ready.Wait()
	go obey(os.Args[5])
	for i := 0; i < number(1); i++ {
		go beBusy(depth, i)
	}
	fmt.Println("ready", os.Getpid())
	for end := time.Now().Add(time.Duration(number(4)) * time.Second); time.Now().Before(end); {
		report()
		time.Sleep(100 * time.Millisecond)
	}
}
