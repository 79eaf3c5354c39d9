import { createHash, hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { fileFact, type InstallFacts, installRules, toolRules } from '../../policy/hosts/installs.ts'
import type { ContainerSpec } from '../containers/port.ts'
import type { Release } from '../releases/release.ts'

/** What decides the result of an install step. */
export interface InstallDependsOn {
  release: Pick<Release, 'ownerId' | 'language' | 'runtimeVersion'>
  spec: Pick<ContainerSpec, 'command' | 'env'>
  /** Id of the image that it runs in. */
  imageId: string
  architecture: string
  /** Content of the file with trusted certificates; null without one. */
  certificates: Buffer | null
  /** The only files that it sees, by name. */
  files: ReadonlyMap<string, Buffer>
}

const sha256 = (data: string | Buffer): string => hash('sha256', data)

export function installFacts(on: InstallDependsOn): InstallFacts {
  const { release, spec, files } = on
  const environment = Object.entries(spec.env).sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    scheme: String(installRules.scheme),
    account: release.ownerId,
    image: on.imageId,
    architecture: on.architecture,
    runtime: `${release.language} ${release.runtimeVersion}`,
    command: sha256(JSON.stringify(spec.command)),
    environment: sha256(JSON.stringify(environment)),
    certificates: on.certificates === null ? 'none' : sha256(on.certificates),
    ...Object.fromEntries([...files].map(([name, bytes]) => [fileFact(name), sha256(bytes)])),
  }
}

/** What the tools' cache of an application depends on besides the sources, which the tools compare themselves. */
export function toolFacts(appId: string, on: Omit<InstallDependsOn, 'files'>): InstallFacts {
  return { ...installFacts({ ...on, files: new Map() }), tools: String(toolRules.scheme), application: appId }
}

/** The key of a result, in hex: equal for equal facts only. */
export function installKey(facts: InstallFacts): string {
  const entries = Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256').update(JSON.stringify(entries)).digest('hex')
}

/** The certificates of a host; null without any. */
export async function certificatesIn(path: string | null): Promise<Buffer | null> {
  return path === null ? null : readFile(path)
}
