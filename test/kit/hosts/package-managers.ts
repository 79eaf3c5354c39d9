import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { managerVersions } from '../../../policy/runtimes/node.ts'
import type { PackageRegistry } from './package-registry.ts'

/** Publishes the released yarn and pnpm that install steps request, for which the registry of this machine is asked once. */
export function releasedManagers(): (registry: PackageRegistry) => void {
  const folder = mkdtempSync(join(tmpdir(), 'berth-managers-'))
  try {
    execFileSync('npm', ['pack', '--silent', ...managerVersions], { cwd: folder, stdio: 'ignore' })
    const found = managerVersions.map(each => {
      const file = join(folder, `${each.replace('@', '-')}.tgz`)
      const manifest = JSON.parse(execFileSync('tar', ['-xzOf', file, 'package/package.json'], { encoding: 'utf8' }))
      return {
        bytes: readFileSync(file),
        name: String(manifest.name),
        version: String(manifest.version),
        bin: manifest.bin,
      }
    })
    return registry => {
      for (const { name, version, bytes, bin } of found) registry.publishArchive(name, version, bytes, { bin })
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
