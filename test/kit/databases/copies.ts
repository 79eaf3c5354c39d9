import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { SerialFn } from 'ava'
import type { DatabaseContents, DumpCorrupt } from '../../../activities/databases/contents.ts'
import { type EngineChoice, type EngineContainer, engineContainer } from './engine-container.ts'

export interface CopiedEngine extends EngineChoice {
  contents: DatabaseContents
}

export interface DigestsOfCopy {
  /** Of the moment of the dump, if it was known then. */
  dump: string | null
  copy: string
}

export type DumpFiles = Readonly<Record<string, Buffer>>

/** Makes databases, and copies of them in other containers. */
export function databaseCopies(test: SerialFn, subject: () => CopiedEngine) {
  const containers: EngineContainer[] = []

  const another = async (): Promise<EngineContainer> => {
    const container = await engineContainer({ ...subject(), templated: true })
    containers.push(container)
    return container
  }

  test.after.always(async () => {
    for (const container of containers) await container.clean()
  })

  /** Works in another container. It is removed afterwards, also when it could not be made. */
  async function within<T>(work: (copy: EngineContainer) => Promise<T>): Promise<T> {
    const copy = await another()
    try {
      return await work(copy)
    } finally {
      containers.splice(containers.indexOf(copy), 1)
      await copy.clean()
    }
  }

  /** Works with a database that has the contents of a dump. */
  const loading = <T>(files: DumpFiles, work: (copy: EngineContainer, digest: string) => Promise<T>): Promise<T> =>
    within(async copy => work(copy, await copy.prepareCopy(subject().contents, copy.dumpFolder(files))))

  /** The digest of a copy with the contents of a dump, which serves nobody. */
  const digestOf = (files: DumpFiles): Promise<string> =>
    within(copy => copy.copyDump(subject().contents, copy.dumpFolder(files)))

  async function dumped(database: EngineContainer) {
    const folder = database.dumpFolder()
    const digest = await database.locally(local => subject().contents.dump(local, database.job(folder)))
    return { digest, files: filesOf(folder) }
  }

  return {
    loading,
    digestOf,

    /**
     * What becomes of each dump: the digest of its copy, or the error that refused it. An engine that has refused one and is as empty as
     * before tries the next. For contents that are loaded while the engine serves.
     */
    async outcomesOf(dumps: readonly DumpFiles[]): Promise<(string | DumpCorrupt)[]> {
      const outcomes: (string | DumpCorrupt)[] = []
      while (outcomes.length < dumps.length) {
        const left = dumps.slice(outcomes.length)
        const more = (copy: EngineContainer) => copy.tryDumps(subject().contents, left.map(copy.dumpFolder))
        outcomes.push(...(await within(more)))
      }
      return outcomes
    },

    /** A database that serves, without contents. It is removed after the tests. */
    async serving(): Promise<EngineContainer> {
      const container = await another()
      await container.prepare()
      await container.settled(await container.locally(subject().adapter.setPassword))
      return container
    },

    /** Dumps a database, and works with another that has the contents of the dump. `dumpEnded` is called in between. */
    async copying<T>(
      database: EngineContainer,
      work: (copy: EngineContainer, digests: DigestsOfCopy) => Promise<T>,
      dumpEnded: () => Promise<void> = async () => {},
    ): Promise<T> {
      const { digest, files } = await dumped(database)
      await dumpEnded()
      return loading(files, (copy, digestOfCopy) => work(copy, { dump: digest, copy: digestOfCopy }))
    },

    /** Dumps a database, and loads the dump into another, which serves nobody. */
    async copiedDigests(database: EngineContainer): Promise<DigestsOfCopy> {
      const { digest, files } = await dumped(database)
      return { dump: digest, copy: await digestOf(files) }
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
