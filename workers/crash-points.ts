/**
 * Named points at which a process can be told to die, for tests of what a crash loses: the setting CRASH_POINT takes
 * `<part>.<verb>:before` or `:after`, and the process kills itself when it first comes there; with CRASH_SIGNAL=SIGSTOP it stands
 * still there, until it is told to go on. Without the setting the part is given back as it is.
 */
export function withCrashPoints<T extends object>(name: string, part: T): T {
  const armed = process.env.CRASH_POINT
  if (!armed?.startsWith(`${name}.`)) return part
  let reached = false
  const reach = (point: string) => {
    if (point !== armed || reached) return
    reached = true
    process.kill(process.pid, process.env.CRASH_SIGNAL === 'SIGSTOP' ? 'SIGSTOP' : 'SIGKILL')
  }
  return new Proxy(part, {
    get(target, key) {
      const value = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const verb = `${name}.${String(key)}`
        reach(`${verb}:before`)
        const result = value.apply(target, args)
        // A transaction of the query builder is no Promise, but behaves like one.
        if (typeof result?.then === 'function') return Promise.resolve(result).finally(() => reach(`${verb}:after`))
        reach(`${verb}:after`)
        return result
      }
    },
  })
}
