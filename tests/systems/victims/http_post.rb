# SPDX-License-Identifier: MIT
# POSTs over one persistent connection with Ruby's own client. Usage: http_post.rb PORT OPERATIONS
require 'net/http'

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

port, count = ARGV.map(&:to_i)
body = 'x' * 400
times = Net::HTTP.start('127.0.0.1', port) do |http|
  # The first is not counted.
  Array.new(count + 1) do
    begun = now
    answer = http.post('/queue', body)
    raise "#{answer.code} #{answer.body}" unless answer.code == '201'

    now - begun
  end.drop(1).sort
end
printf("operations %d median_us %.1f max_us %.1f stalls %d\n", count, times[count / 2] * 1e6,
       times.last * 1e6, times.count { |time| time > 0.020 })
