import { setTimeout as sleep } from 'node:timers/promises'
import type Koa from 'koa'
import { moveFile, removeFile, writeFile } from '../../../activities/app-files/changes.ts'
import { type FilesOf, listFiles, readFile, rootOf } from '../../../activities/app-files/files.ts'
import { emptyTrash } from '../../../activities/app-files/trash.ts'
import { exists } from '../../../activities/releases/files.ts'
import { VolumeLost } from '../../../activities/volumes/port.ts'
import { type OwedPurge, owePurge, payPurge } from '../../../db/apps/cache-versions.ts'
import { readCapped } from '../../../lib/read-capped.ts'
import { filePath } from '../../../policy/apps/app-paths.ts'
import { fileTooLarge, maxFileBytes } from '../../../policy/apps/file-content.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { HostRoute, HostServerOptions } from './host-route.ts'

/** A large folder is removed immediately; this is the maximum wait until its space is free. */
const emptyingMs = 20_000

type Act = (files: FilesOf, path: string, ctx: Koa.Context, host: HostServerOptions, appId: string) => Promise<unknown>

/** Files of one application, by the query's `path`. `hide` lists the installation's names of the configuration file. */
export const fileRoutes: readonly HostRoute[] = [
  route('GET', 'files', async (files, path, ctx) => {
    ctx.body = await listFiles(files, path)
    ctx.type = 'application/json'
  }),
  route('GET', 'files/content', async (files, path, ctx) => {
    ctx.body = await readFile(files, path)
    ctx.type = 'application/octet-stream'
  }),
  route('PUT', 'files', async (files, path, ctx, host, appId) => {
    const bytes = await bytesOf(ctx)
    await change(ctx, host, appId, () => writeFile(files, path, bytes))
  }),
  route('PATCH', 'files', async (files, path, ctx, host, appId) => {
    const to = pathOf(ctx.query.to)
    await change(ctx, host, appId, () => moveFile(files, path, to))
  }),
  route('DELETE', 'files', async (files, path, ctx, host, appId) => {
    await change(ctx, host, appId, () => removeFile(files, path))
    const emptied = emptyTrash(files.volume).catch(err => host.log.warn({ err, appId }, 'emptying the trash'))
    await Promise.race([emptied, sleep(emptyingMs, undefined, { ref: false })])
  }),
]

/** Answers refusals with a code, which the API passes on. */
function route(method: HostRoute['method'], name: string, act: Act): HostRoute {
  return {
    method,
    name,
    async handle(ctx, appId, host) {
      try {
        const hiding = ctx.query.hide === undefined ? null : String(ctx.query.hide).split(',')
        await act(
          { volume: host.volumes.path(appId), hiding },
          pathOf(ctx.query.path, name === 'files' && method === 'GET'),
          ctx,
          host,
          appId,
        )
        if (method !== 'GET') ctx.status = 204
      } catch (error) {
        if (!(error instanceof CodedError)) throw error
        const lost = !(await exists(rootOf(host.volumes.path(appId))))
        // Without its disk the file would be reported as missing, as if the program had removed everything.
        const reported = lost ? new CodedError('ACTION_FAILED', new VolumeLost(appId).message) : error
        ctx.status = reported.status
        ctx.body = { code: reported.code, message: reported.message }
      }
    },
  }
}

function pathOf(text: unknown, rootToo = false): string {
  const path = filePath(String(text ?? ''))
  if (path === null || (path === '' && !rootToo)) throw new CodedError('INVALID_PATH')
  return path
}

/** Changes files under the application's lock, unless the caller has disconnected. A program may answer with its files as they are: what is cached is purged. */
function change(ctx: Koa.Context, { db, locks, log }: HostServerOptions, appId: string, work: () => Promise<void>) {
  return locks(appId, async () => {
    if (ctx.res.destroyed) throw new CodedError('CLUSTER_TIMEOUT')
    const owed = await owePurge(db, appId)
    const pay = (purge: OwedPurge) =>
      payPurge(db, purge).catch(err => log.warn({ err, appId }, 'purging the cache: a round does it'))
    await work().finally(() => owed && pay(owed))
  })
}

async function bytesOf({ req }: Koa.Context): Promise<Buffer> {
  const bytes = await readCapped(req, maxFileBytes)
  if (!bytes) throw fileTooLarge()
  return bytes
}
