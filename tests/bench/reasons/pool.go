// SPDX-License-Identifier: Apache-2.0
// Goroutines that work on jobs of a channel, below one mutex, beside an HTTP
// server that they ask. pool SECONDS
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(
		func(answer http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Millisecond)
			io.WriteString(answer, "ok")
		}))
	url := "http://" + listener.Addr().String()
	jobs := make(chan int, 100)
	var lock sync.Mutex
	table := map[int]int{}
	for i := 0; i < 8; i++ {
		go func() {
			for job := range jobs {
				if answer, err := http.Get(url); err == nil {
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				lock.Lock()
				table[job%100] += job
				if job%7 == 0 {
					time.Sleep(3 * time.Millisecond)
				}
				lock.Unlock()
			}
		}()
	}
	fmt.Println("ready")
	for job := 0; time.Now().Before(end); job++ {
		jobs <- job
		time.Sleep(1500 * time.Microsecond)
	}
}
