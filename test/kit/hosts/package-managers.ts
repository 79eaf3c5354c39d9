import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { managerVersions } from '../../../policy/runtimes/node.ts'
import type { PackageRegistry } from './package-registry.ts'

const run = promisify(execFile)

/**
 * Publishes the released yarn and pnpm that install steps request, for which the registry of this machine is asked once. It takes a minute on
 * a busy machine, and whatever else waits in this process goes on.
 */
export async function releasedManagers(): Promise<(registry: PackageRegistry) => void> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-managers-'))
  try {
    await run('npm', ['pack', '--silent', ...managerVersions], { cwd: folder })
    const found = await Promise.all(
      managerVersions.map(async each => {
        const file = join(folder, `${each.replace('@', '-')}.tgz`)
        const { stdout } = await run('tar', ['-xzOf', file, 'package/package.json'])
        const { name, version, bin } = JSON.parse(stdout)
        return { bytes: await readFile(file), name: String(name), version: String(version), bin }
      }),
    )
    return registry => {
      for (const { name, version, bytes, bin } of found) registry.publishArchive(name, version, bytes, { bin })
    }
  } finally {
    await rm(folder, { recursive: true })
  }
}
