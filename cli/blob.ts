import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { importLegacy } from '../activities/objects/legacy-import.ts'
import { type Damage, type Verification, verifyBodies } from '../activities/objects/segment-verification.ts'
import { openObjectStore } from '../activities/objects/select.ts'
import { withInstallation } from './installation/database.ts'
import { recordAct } from './ops/operator.ts'
import { sayOnStderr } from './terminal/terminal.ts'
import { userId } from './users.ts'

export function blobCommand(program: Command): void {
  const blob = program.command('blob')
  blob
    .command('import')
    .description(
      'import files as legacy objects under their old ids, <user id>/<path>; continues an interrupted import',
    )
    .argument('<folder>', 'files below it keep their relative paths')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--json', 'print the result as one JSON object')
    .action(async (folder: string, { user, json }: { user: string; json?: boolean }) => {
      const report = progressOf('files')
      const source = await folderAt(folder)
      const done = await withInstallation(async ({ config }, db) => {
        const ownerId = await userId(db, user)
        await recordAct(db, { action: 'blob.import', accountId: ownerId })
        const store = await openObjectStore(config.objectStore)
        const onProgress = ({ imported, already, bytes }: { imported: number; already: number; bytes: number }) =>
          report(imported + already, bytes)
        return importLegacy({ db, store, folder: source, ownerId, onProgress })
      })
      if (json) console.log(JSON.stringify(done))
      else {
        for (const { path, why } of done.skipped) sayOnStderr(`skipped ${JSON.stringify(path)}: ${why}`)
        console.log(`${done.imported} imported, ${done.already} already present, ${done.skipped.length} skipped.`)
      }
      if (done.skipped.length > 0) process.exitCode = 1
    })
  blob
    .command('verify')
    .description('read every stored segment and report those that differ from what was stored')
    .option('--sizes', 'compare sizes only, without reading contents')
    .option('--json', 'as one JSON object')
    .action(async ({ sizes = false, json }: { sizes?: boolean; json?: boolean }) => {
      const report = progressOf('segments')
      const verification = await withInstallation(async ({ config }, db) => {
        const store = await openObjectStore(config.objectStore)
        return verifyBodies(db, store, { read: !sizes, onProgress: ({ bodies, bytes }) => report(bodies, bytes) })
      })
      console.log(json ? JSON.stringify(verification) : verdict(verification))
      if (verification.damaged.length > 0) process.exitCode = 1
    })
}

/** Throws an Error when there is none, before anything is read or recorded. */
async function folderAt(path: string): Promise<string> {
  const stats = await stat(path).catch(() => null)
  if (!stats?.isDirectory()) throw new Error(`There is no folder ${path}.`)
  return resolve(path)
}

const everyMs = 2000

/** Reports progress in one line every 2 s. */
function progressOf(what: string): (count: number, bytes: number) => void {
  let last = Date.now()
  return (count, bytes) => {
    if (Date.now() - last < everyMs) return
    last = Date.now()
    sayOnStderr(`  ... ${count} ${what}, ${gigabytes(bytes)}`)
  }
}

export const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(2)} GB`

/** `berth blob verify` for people. */
export function verdict({ bodies, bytes, damaged }: Verification): string {
  const total = `${bodies} segments, ${gigabytes(bytes)}`
  if (damaged.length === 0) return `${total}: all intact.`
  return [`${total}: ${damaged.length} DAMAGED.`, ...damaged.map(damageLine)].join('\n')
}

const damageLine = ({ id, what, objects }: Damage) =>
  `${id}  ${what}  ${objects.length > 0 ? objects.join(', ') : 'no object: an archive or a snapshot'}`
