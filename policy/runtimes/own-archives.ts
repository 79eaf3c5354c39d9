import { installRules } from '../hosts/installs.ts'
import type { Fields } from './root-texts.ts'

/** Archives of packages in the project, by the sources in its manifest that name them: their paths. */
export type OwnArchives = ReadonlyMap<unknown, string>

/** The lists of a manifest whose archives npm installs from. */
const archiveLists = ['dependencies', 'devDependencies', 'optionalDependencies']
/** A path that leads nowhere else, whatever reads it. */
const archiveIn = /^(?:file:)?(?:\.\/)?((?:[\w@+-][\w@.+-]{0,200}\/){0,20}[\w@+-][\w@.+-]{0,200}\.(?:tgz|tar\.gz))$/
/** Where npm installs. An upload of what lies in such a folder, at any depth, brings no other dependencies. */
export const modulesFolder = 'node_modules'

/** The archives from which npm installs; what is a folder is only linked, and its own packages lie outside of the result. */
export function archivesOf(manifest: Fields): OwnArchives {
  const sources = new Set(archiveLists.flatMap(list => Object.values(Object(manifest[list]))))
  return new Map(
    [...sources].flatMap(source => {
      const path =
        typeof source === 'string' && /^(?:file:|\.\/)/.test(source) ? archiveIn.exec(source)?.[1] : undefined
      const isRead =
        path !== undefined && path.length <= installRules.archivePath && !path.split('/').includes(modulesFolder)
      return isRead ? [[source, path] as const] : []
    }),
  )
}

/** What a list of the manifest names besides these archives. */
export const withoutArchives = (list: unknown, name: string, archives: OwnArchives): unknown =>
  archiveLists.includes(name) && typeof list === 'object' && list !== null && !Array.isArray(list)
    ? Object.fromEntries(Object.entries(list).filter(([, source]) => !archives.has(source)))
    : list

/** Why these archives are not files that a step may depend on; null when they are few, and the lock file of this name lists each. */
export function ofArchives(archives: OwnArchives, { packages }: Fields, lockName: string): string | null {
  const listed = new Set(Object.values(packages as Record<string, Fields>).map(({ resolved }) => resolved))
  const paths = new Set(archives.values())
  const unlisted = [...paths].find(path => !listed.has(`file:${path}`))
  if (unlisted !== undefined) return `${lockName} does not list ${unlisted}`
  return paths.size > installRules.archives
    ? `more than ${installRules.archives} packages are archives of the application`
    : null
}
