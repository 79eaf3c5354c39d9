import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { SerialFn } from 'ava'
import type { DatabaseContents } from '../../../activities/databases/contents.ts'
import { type EngineChoice, type EngineContainer, engineContainer } from './engine-container.ts'

export interface CopiedEngine extends EngineChoice {
  contents: DatabaseContents
}

interface DigestsOfCopy {
  /** Of the moment of the dump, if it was known then. */
  dump: string | null
  copy: string
}

export type DumpFiles = Readonly<Record<string, Buffer>>

/** Makes databases, and copies of them in other containers. */
export function databaseCopies(test: SerialFn, subject: () => CopiedEngine) {
  const containers: EngineContainer[] = []

  const another = async (): Promise<EngineContainer> => {
    const container = await engineContainer(subject())
    containers.push(container)
    return container
  }

  test.after.always(async () => {
    for (const container of containers) await container.clean()
  })

  /** Works with a database that has the contents of a dump. It is removed afterwards, also when it could not be made. */
  async function loading<T>(files: DumpFiles, work: (copy: EngineContainer, digest: string) => Promise<T>): Promise<T> {
    const copy = await another()
    try {
      return await work(copy, await copy.prepareCopy(subject().contents, copy.dumpFolder(files)))
    } finally {
      containers.splice(containers.indexOf(copy), 1)
      await copy.clean()
    }
  }

  return {
    loading,

    /** A database that serves, without contents. It is removed after the tests. */
    async serving(): Promise<EngineContainer> {
      const container = await another()
      await container.prepare()
      await container.settled(await container.locally(subject().adapter.setPassword))
      return container
    },

    /** Dumps a database, and works with another that has the contents of the dump. */
    async copying<T>(
      database: EngineContainer,
      work: (copy: EngineContainer, digests: DigestsOfCopy) => Promise<T>,
    ): Promise<T> {
      const folder = database.dumpFolder()
      const dump = await database.locally(local => subject().contents.dump(local, database.job(folder)))
      return loading(filesOf(folder), (copy, digest) => work(copy, { dump, copy: digest }))
    },
  }
}

/** The files of a dump by name. */
export const filesOf = (folder: string): Record<string, Buffer> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(({ parentPath, name }) => [relative(folder, join(parentPath, name)), readFileSync(join(parentPath, name))]),
  )
