# SPDX-License-Identifier: MIT
# Answers a POST with 201 by WEBrick. Usage: webrick.rb
require 'webrick'

server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: 0, AccessLog: [],
                                 Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
server.mount_proc('/') do |request, response|
  request.body
  response.status = 201
  response.body = "stored\n"
end
trap('TERM') { server.shutdown }
puts "listening on port #{server.listeners[0].addr[1]}"
$stdout.flush
server.start
