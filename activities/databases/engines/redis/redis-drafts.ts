import { constants } from 'node:fs'
import { open, opendir, unlink } from 'node:fs/promises'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { codeOf } from '../../../../lib/folders/error-codes.ts'

export const dumpFile = 'dump.rdb'
/** Names that are looked at for what Redis has left, which are a few. */
const maxNames = 1000
const dumps = /^(dump|temp-\d+)\.rdb$/

/** Removes what Redis saves for dumps, also what an earlier one has left: it is on the disk that the customer pays for. */
export const discardDumps = (data: string): Promise<void> => discard(data, dumps)

/** Removes the dump that an earlier attempt has left. A container of a killed host may still read it: emptied, its room is free immediately. */
export const discardLeftDump = (data: string): Promise<void> =>
  each(data, /^dump\.rdb$/, path => emptied(path).finally(() => unlink(path)))

/** Takes the room of dumps back that are written or read at this moment. A removed file would have it until it is closed. */
export const emptyDumps = (data: string): Promise<void> => each(data, dumps, emptied)

async function emptied(path: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  await file.truncate(0).finally(() => file.close())
}

/** Removes what a Redis that has ended was writing: a dump, or its log anew. It may be as large as all data, and Redis leaves it there. */
export const discardDrafts = (data: string): Promise<void> =>
  discard(data, /^(temp-\d+\.rdb|temp-rewriteaof-(bg-)?\d+\.aof)$/).catch(error => {
    if (codeOf(error) !== 'ENOENT') throw error
  })

// A process that still writes its file cannot rename it any more.
const discard = (data: string, isLeft: RegExp): Promise<void> => each(data, isLeft, unlink)

/** The engine may have put anything there: follows no links, leaves folders, and looks at a bounded number of names. */
async function each(data: string, isMeant: RegExp, work: (path: string) => Promise<void>): Promise<void> {
  const opened = await open(data, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    const folder = `/proc/self/fd/${opened.fd}`
    let names = 0
    for await (const { name } of await opendir(folder, { encoding: 'latin1' as BufferEncoding })) {
      if (isMeant.test(name)) await work(`${folder}/${name}`).catch(ignoreError('it is missing, or a folder'))
      if (++names === maxNames) break
    }
  } finally {
    await opened.close()
  }
}
