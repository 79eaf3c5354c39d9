/** Runs `work` for each item, up to `width` concurrently. Rejects with the first rejection; the others continue. */
export async function eachConcurrently<T>(
  items: Iterable<T> | AsyncIterable<T>,
  width: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  const runner = async (): Promise<void> => {
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) await work(next.value)
  }
  await Promise.all(Array.from({ length: width }, runner))
}

/** As `eachConcurrently`; resolves to the results in the order of their items. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length)
  await eachConcurrently(items.entries(), Math.min(width, items.length), async ([index, item]) => {
    results[index] = await work(item)
  })
  return results
}
