import type { LockedPackages } from './locked-packages.ts'
import { pnpmPackages } from './pnpm-lock.ts'
import { objectOf, type RootTexts } from './root-texts.ts'
import { yarnPackages } from './yarn-lock.ts'

const [pnpmLock, yarnLock] = ['pnpm-lock.yaml', 'yarn.lock'] as const

/** Lock files of other package managers than npm, of which the first that is there decides. */
export const otherLocks: readonly string[] = [pnpmLock, yarnLock]

interface OtherPackages {
  /** Name of the lock file. */
  lock: string
  packages: LockedPackages
  /** Keys of those that the project itself needs. */
  needs: readonly string[]
}

/** What a lock file of pnpm or yarn lists, by the rules by which `install` chooses between them. */
export function otherPackages(texts: RootTexts, omitsDev: boolean): OtherPackages | { because: string } {
  const lists = ['dependencies', 'optionalDependencies', ...(omitsDev ? [] : ['devDependencies'])]
  if (texts.has(pnpmLock)) {
    const locked = pnpmPackages(texts.get(pnpmLock) ?? '')
    if ('because' in locked) return locked
    return { lock: pnpmLock, packages: locked.packages, needs: lists.flatMap(list => locked.needs.get(list) ?? []) }
  }
  const locked = yarnPackages(texts.get(yarnLock) ?? '')
  if (isRefused(locked)) return locked
  const manifest = objectOf(texts.get('package.json'))
  const needs = lists.flatMap(list =>
    Object.entries(Object(manifest?.[list])).map(([name, range]) => `${name}@${range}`),
  )
  return { lock: yarnLock, packages: locked, needs }
}

const isRefused = (locked: LockedPackages | { because: string }): locked is { because: string } => 'because' in locked
