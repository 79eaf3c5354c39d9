import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { importLegacy } from '../activities/objects/legacy-import.ts'
import { openObjectStore } from '../activities/objects/select.ts'
import { type Damage, type Verification, verifyBodies } from '../activities/objects/stored-bodies.ts'
import { withInstallation } from './installation/database.ts'
import { recordAct } from './ops/operator.ts'
import { sayOnStderr } from './terminal/terminal.ts'
import { userId } from './users.ts'

export function blobCommand(program: Command): void {
  const blob = program.command('blob').description('blob storage: what is stored, and what comes from elsewhere')
  blob
    .command('import')
    .description(
      'bring files in as legacy objects under their old ids, <user id>/<path>; goes on where it was broken off',
    )
    .argument('<folder>', 'what lies below it keeps its path')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--json', 'the end as one JSON object')
    .action(async (folder: string, { user, json }: { user: string; json?: boolean }) => {
      const say = now('files')
      const source = await folderAt(folder)
      const done = await withInstallation(async ({ config }, db) => {
        const ownerId = await userId(db, user)
        await recordAct(db, { action: 'blob.import', accountId: ownerId })
        const store = await openObjectStore(config.objectStore)
        const progress = (so: { imported: number; already: number; bytes: number }) =>
          say(so.imported + so.already, so.bytes)
        return importLegacy({ db, store, folder: source, ownerId, progress })
      })
      if (json) console.log(JSON.stringify(done))
      else {
        for (const { path, why } of done.skipped) sayOnStderr(`skipped ${JSON.stringify(path)}: ${why}`)
        console.log(`${done.imported} imported, ${done.already} there already, ${done.skipped.length} skipped.`)
      }
      if (done.skipped.length > 0) process.exitCode = 1
    })
  blob
    .command('verify')
    .description('read every stored body again, and tell those that are not as they were stored')
    .option('--sizes', 'compare sizes only, without reading')
    .option('--json', 'as one JSON object')
    .action(async ({ sizes = false, json }: { sizes?: boolean; json?: boolean }) => {
      const say = now('bodies')
      const found = await withInstallation(async ({ config }, db) => {
        const store = await openObjectStore(config.objectStore)
        return verifyBodies(db, store, { read: !sizes, progress: so => say(so.bodies, so.bytes) })
      })
      console.log(json ? JSON.stringify(found) : verdict(found))
      if (found.damaged.length > 0) process.exitCode = 1
    })
}

/** Throws an Error when there is none: before anything is asked or written down. */
async function folderAt(path: string): Promise<string> {
  const found = await stat(path).catch(() => null)
  if (!found?.isDirectory()) throw new Error(`There is no folder ${path}.`)
  return resolve(path)
}

const everyMs = 2000

/** A line of progress now and then. */
function now(what: string): (count: number, bytes: number) => void {
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
  const looked = `${bodies} bodies, ${gigabytes(bytes)}`
  if (damaged.length === 0) return `${looked}: all as they were stored.`
  return [`${looked}: ${damaged.length} are NOT as they were stored.`, ...damaged.map(told)].join('\n')
}

const told = ({ id, what, objects }: Damage) =>
  `${id}  ${what}  ${objects.length > 0 ? objects.join(', ') : 'no object: an archive or a snapshot'}`
