/**
 * Heap flags of the API's processes. The heap may grow to three times its size before the next full marking: the chunks of a body are
 * outside of the heap but count as its growth, and a heap as small as ours was marked once in every 64 MiB received, which cost a
 * quarter of an upload's speed. The young generation has twice its default size, so that less of it is copied during a request: 6 % of
 * small uploads. Both flags are read once, before a process starts.
 */
export const heapFlags = ['--heap-growing-percent=200', '--max-semi-space-size=32'] as const
