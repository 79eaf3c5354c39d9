/**
 * What the API's processes tell Node about their heap. It may grow to three times of what it held before the collector marks all of it
 * again: the pieces of a body lie outside of it but count as its growth, and a heap as small as ours was marked once in every 64 MiB that
 * came, which took a quarter of an upload's speed. What is young has twice the usual room, so that less of it is copied while its request
 * is under way: 6 % of small uploads. Both are read once, before a process begins.
 */
export const heapFlags = ['--heap-growing-percent=200', '--max-semi-space-size=32'] as const
