import { throttledLog } from '../../lib/async/throttled-log.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'

/** Logs that a request to `url` of a registry has failed. */
export type Warn = (url: string, error: Error) => void

/** Passes on a few warnings a minute of each registry and kind of failure, so that one that a program in a build provokes hides no other. */
export function warnings(send: (text: string) => void): (registry: string) => Warn {
  const { perMinute, kinds, pathLength } = packageCacheRules.warnings
  const passes = new Map<string, (text: string) => void>()

  function passOf(key: string): (text: string) => void {
    const present = passes.get(key)
    if (present) return present
    // Kinds beyond the bound share one number.
    if (passes.size >= kinds && key !== '') return passOf('')
    const pass = throttledLog(perMinute, 60_000, (text, leftOut) =>
      send(leftOut > 0 ? `${text}; ${leftOut} like it before` : text),
    )
    passes.set(key, pass)
    return pass
  }

  return registry => (url, error) => {
    const { host, pathname } = new URL(url)
    const { code = '' } = error as NodeJS.ErrnoException
    // Numbers and names in a message do not make another kind of it.
    const kind = code || error.message.replace(/\d+/g, '').slice(0, 60)
    passOf(`${registry} ${error.name} ${kind}`)(`${host}: ${error.message} (${pathname.slice(0, pathLength)})`)
  }
}
