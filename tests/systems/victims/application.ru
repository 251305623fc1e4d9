# SPDX-License-Identifier: MIT
# Answers a POST with 201, for servers that run a Rack application.
run(lambda do |environment|
  environment['rack.input'].read
  [201, { 'Content-Type' => 'text/plain', 'Content-Length' => '7' }, ["stored\n"]]
end)
