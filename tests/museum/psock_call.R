# SPDX-License-Identifier: MIT
# Calls a function in a worker that was started by hand. Usage: psock_call.R PORT OPERATIONS
arguments <- as.integer(commandArgs(TRUE))
cluster <- parallel::makePSOCKcluster(1, port = arguments[1], manual = TRUE)
parallel::clusterCall(cluster, function() iris)
times <- sort(replicate(arguments[2], {
    begun <- Sys.time()
    parallel::clusterCall(cluster, function() iris)
    1e6 * as.numeric(Sys.time() - begun, units = "secs")
}))
cat(sprintf("operations %d median_us %.1f max_us %.1f stalls %d\n", arguments[2], median(times), max(times), sum(times > 20000)))
