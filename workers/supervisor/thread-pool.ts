/**
 * Threads for files in each of our processes. A disk sync occupies one for its whole duration: with Node's default of four, four uploads
 * would delay everyone's reads. Read once, before a process starts.
 */
export const threadPool = { UV_THREADPOOL_SIZE: '24' } as const
