/** Concurrent callers of one key share the call that is in progress. Nothing is remembered after it. */
export function singleFlight<T>(): (key: string, work: () => Promise<T>) => Promise<T> {
  const inProgress = new Map<string, Promise<T>>()
  return (key, work) => {
    const present = inProgress.get(key)
    if (present) return present
    const pending = work().finally(() => inProgress.delete(key))
    inProgress.set(key, pending)
    return pending
  }
}
