import { Readable } from 'node:stream'
import type { AppRow } from '../../db/apps/apps.ts'
import { CodedError, isErrorCode } from '../../policy/errors.ts'
import type { HostCall, HostRequest } from './host-call.ts'

/** A path in an application's folder, and what the caller may see there. */
export interface FilesView {
  app: AppRow
  /** Relative, as `filePath` returns it. */
  path: string
  /** The installation's names of the configuration file, if secret files are hidden from the caller; null if everything is visible. */
  hiding: readonly string[] | null
}

/** Files of applications at their hosts. Throws the hosts' codes (activities/app-files/files.ts), CLUSTER_UNAVAILABLE, CLUSTER_TIMEOUT. */
export interface HostFiles {
  /** The entries as JSON text. */
  list(view: FilesView): Promise<Readable>
  /** The bytes of one file. */
  read(view: FilesView): Promise<Readable>
  write(view: FilesView, bytes: Uint8Array<ArrayBuffer>): Promise<void>
  move(view: FilesView, to: string): Promise<void>
  remove(view: FilesView): Promise<void>
}

/** How long a host has to start its answer, in milliseconds. A change waits for other changes of the same application. */
const usualDeadlines = { readMs: 10_000, changeMs: 45_000 }

/** Files over HTTP from the servers of the hosts. */
export function httpHostFiles(ask: HostCall, deadlines = usualDeadlines): HostFiles {
  async function send(view: FilesView, name: string, request: Partial<HostRequest> & { to?: string }) {
    const { method = 'GET', body, to } = request
    const query = new URLSearchParams({ path: view.path })
    if (view.hiding) query.set('hide', view.hiding.join(','))
    if (to !== undefined) query.set('to', to)
    const deadlineMs = method === 'GET' ? deadlines.readMs : deadlines.changeMs
    const response = await ask(view.app, { method, path: `${name}?${query}`, body, deadlineMs })
    if (!response.ok) throw await refusalOf(response)
    return response
  }

  async function stream(view: FilesView, name: string): Promise<Readable> {
    const { body } = await send(view, name, {})
    return body ? Readable.fromWeb(body as never) : Readable.from([])
  }

  async function change(view: FilesView, request: Partial<HostRequest> & { to?: string }): Promise<void> {
    await (await send(view, 'files', request)).body?.cancel()
  }

  return {
    list: view => stream(view, 'files'),
    read: view => stream(view, 'files/content'),
    write: (view, body) => change(view, { method: 'PUT', body }),
    move: (view, to) => change(view, { method: 'PATCH', to }),
    remove: view => change(view, { method: 'DELETE' }),
  }
}

/** A host refuses with a code of the catalogue; any other answer means that the host does not work. */
async function refusalOf(response: Response): Promise<CodedError> {
  const refusal = (await response.json().catch(() => ({}))) as { code?: string; message?: string }
  if (!refusal.code || !isErrorCode(refusal.code)) return new CodedError('CLUSTER_UNAVAILABLE')
  return new CodedError(refusal.code, refusal.message)
}
