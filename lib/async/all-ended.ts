/** The results of works that run at the same time, once all of them have ended; rejects with the failure of the first one in the list then. */
export async function allEnded<T extends readonly unknown[]>(works: { [K in keyof T]: Promise<T[K]> }): Promise<T> {
  await Promise.allSettled(works)
  return Promise.all(works) as unknown as Promise<T>
}
