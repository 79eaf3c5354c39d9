import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { packageManagers } from '../../policy/packages/registries.ts'
import type { PackageUseRequest } from './port.ts'

/** The registry, or why the cache cannot stand in for it. */
type Finding = { url: string } | { because: string }

const maxPrinted = 200_000

/**
 * The registry that the package manager of an image uses, as it reports itself in a container like that of the step, without any file of the
 * project. Each image is queried once, and again later when it could not answer. Rejects only with the reason of the signal.
 */
export function imageRegistries(now: () => number = () => performance.now()) {
  const findings = new Map<string, { finding: Finding; until: number }>()

  async function query({ engine, kind, spec, signal }: PackageUseRequest): Promise<Finding> {
    let printed = ''
    const run = {
      ...spec,
      command: ['sh', '-c', packageManagers[kind].query],
      workingDir: '/',
      binds: spec.binds.filter(({ readOnly }) => readOnly),
    }
    const onOutput = (text: string) => {
      if (printed.length < maxPrinted) printed += text
    }
    try {
      await engine.runToEnd(run, onOutput, deadlineSignal(packageCacheRules.querySeconds * 1000, signal))
    } catch (error) {
      signal.throwIfAborted()
      return { because: `the image could not be queried: ${(error as Error).message}` }
    }
    return packageManagers[kind].registryIn(printed)
  }

  return async (request: PackageUseRequest): Promise<Finding> => {
    const id = await request.engine.imageId(request.spec.image)
    if (id === null) return { because: 'the image is missing' }
    const key = `${request.kind} ${id}`
    const before = findings.get(key)
    if (before && before.until > now()) return before.finding
    const finding = await query(request)
    const until = 'url' in finding ? Number.POSITIVE_INFINITY : now() + packageCacheRules.queryAgainSeconds * 1000
    findings.set(key, { finding, until })
    return finding
  }
}
