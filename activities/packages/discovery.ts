import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { packageManagers } from '../../policy/packages/registries.ts'
import type { PackageUseRequest } from './port.ts'

type Asked = { url: string } | { because: string }

const maxPrinted = 200_000

/**
 * The registry that the package manager of an image uses, as it says itself in a container like that of the step, without any file of the
 * project. Each image is asked once, and again later when it could not answer. Rejects only with the reason of the signal.
 */
export function imageRegistries(now: () => number = () => performance.now()) {
  const known = new Map<string, { asked: Asked; until: number }>()

  async function ask({ engine, kind, spec, signal }: PackageUseRequest): Promise<Asked> {
    let printed = ''
    const run = {
      ...spec,
      command: ['sh', '-c', packageManagers[kind].ask],
      workingDir: '/',
      binds: spec.binds.filter(({ readOnly }) => readOnly),
    }
    const onOutput = (text: string) => {
      if (printed.length < maxPrinted) printed += text
    }
    try {
      await engine.runToEnd(run, onOutput, deadlineSignal(packageCacheRules.askSeconds * 1000, signal))
    } catch (error) {
      signal.throwIfAborted()
      return { because: `the image was not asked: ${(error as Error).message}` }
    }
    return packageManagers[kind].registryIn(printed)
  }

  return async (request: PackageUseRequest): Promise<Asked> => {
    const id = await request.engine.imageId(request.spec.image)
    if (id === null) return { because: 'the image is missing' }
    const key = `${request.kind} ${id}`
    const before = known.get(key)
    if (before && before.until > now()) return before.asked
    const asked = await ask(request)
    const until = 'url' in asked ? Number.POSITIVE_INFINITY : now() + packageCacheRules.askAgainSeconds * 1000
    known.set(key, { asked, until })
    return asked
  }
}
