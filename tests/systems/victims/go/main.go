// SPDX-License-Identifier: MIT

// A peer that no preloaded library reaches: it answers a POST with what it brought and 201, or POSTs over one
// kept connection, and sets TCP_NODELAY, as Go's own library does.
// Usage: peer server; peer client PORT OPERATIONS
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"time"
)

const stall = 20 * time.Millisecond

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on port %d\n", listener.Addr().(*net.TCPAddr).Port)
	return http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		answer.WriteHeader(http.StatusCreated)
		answer.Write(body)
	}))
}

func post(port string, message []byte) (time.Duration, error) {
	begun := time.Now()
	answer, err := http.Post("http://127.0.0.1:"+port+"/queue", "text/plain", bytes.NewReader(message))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode/100 != 2 || !bytes.Equal(body, message)) {
		err = fmt.Errorf("another answer: %s", answer.Status)
	}
	return time.Since(begun), err
}

func ask(port string, count int) error {
	message := bytes.Repeat([]byte("x"), 400)
	times := make([]time.Duration, 0, count)
	stalls := 0
	for i := 0; i <= count; i++ {
		took, err := post(port, message)
		if err != nil {
			return err
		}
		// The first opens the connection and is not counted.
		if i > 0 {
			times = append(times, took)
		}
		if i > 0 && took > stall {
			stalls++
		}
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	fmt.Printf("operations %d median_us %.1f max_us %.1f stalls %d\n", count,
		float64(times[count/2])/1e3, float64(times[count-1])/1e3, stalls)
	return nil
}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 4 && os.Args[1] == "client" {
		count, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = ask(os.Args[2], count)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	log.Fatal(serve())
}
