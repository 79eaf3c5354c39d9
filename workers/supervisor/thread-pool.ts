/**
 * Threads of a process of ours for files. A sync of the disk holds one for as long as it takes, and with Node's usual four the reads of
 * everybody wait behind those of four uploads. It is read once, before a process begins.
 */
export const threadPool = { UV_THREADPOOL_SIZE: '16' } as const
