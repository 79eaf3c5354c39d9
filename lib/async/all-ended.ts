/** As `Promise.all`, but ends only once all have ended, and rejects with the failure of the first in the list: what still runs would meet what the caller does next. */
export async function allEnded<T extends readonly unknown[] | []>(
  work: T,
): Promise<{ -readonly [Position in keyof T]: Awaited<T[Position]> }> {
  await Promise.allSettled(work)
  return Promise.all(work)
}
