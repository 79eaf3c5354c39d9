/**
 * Named points at which a process can be made to die, for tests of what a crash loses: CRASH_POINT is set to `<part>.<verb>:before`
 * or `:after`, and the process kills itself when it first gets there. With CRASH_SIGNAL=SIGSTOP it freezes there until SIGCONT.
 * Without the setting the part is returned unchanged.
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
        // A transaction of the query builder is thenable but no Promise.
        if (typeof result?.then === 'function') return Promise.resolve(result).finally(() => reach(`${verb}:after`))
        reach(`${verb}:after`)
        return result
      }
    },
  })
}
