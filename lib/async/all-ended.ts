/** As `Promise.all`, but rejects only once all have ended: what still runs would meet what the caller does next. */
export async function allEnded<T extends readonly unknown[] | []>(
  work: T,
): Promise<{ -readonly [Position in keyof T]: Awaited<T[Position]> }> {
  await Promise.allSettled(work)
  return Promise.all(work)
}
