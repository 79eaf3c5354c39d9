import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serveGit } from './git-backend.ts'
import { type Files, TestRepository } from './git-repository.ts'

export type { TestRepository } from './git-repository.ts'

export interface GitServer {
  port: number
  /** `host:port`, as GIT_ALLOWED_HOSTS takes it. */
  host: string
  url: string
  /**
   * A new repository, with a first push when files are given. Private ones want the server's token as password. Its pushes name it as it is
   * seen at another origin, if one is given.
   */
  repository(options?: { name?: string; files?: Files; private?: boolean; seenAt?: string }): Promise<TestRepository>
  /** Password of private repositories. */
  token: string
  /** How the server behaves from now on; assign to change. `/status-503/x.git` and `/silent/x.git` are always there. */
  behaviour: Behaviour
  /** Every request so far. */
  requests: { method: string; path: string; authorization: string | null }[]
  stop(): Promise<void>
}

interface Behaviour {
  /** Bytes per second by the repository's path on disk; others answer immediately. */
  slow: Map<string, number>
  /** Repositories, by path on disk, that speak the oldest protocol, which gives branches only. */
  oldProtocol: Set<string>
  /** Where a request is sent on to, by its path and query; null = it is served. */
  redirect: (path: string) => string | null
  /** Takes an answer over; true = it did. */
  answer: (request: IncomingMessage, answer: ServerResponse) => boolean
}

/** A git server on loopback: git's own http-backend behind node:http, with repositories in a folder of its own. */
export async function startGitServer(): Promise<GitServer> {
  const root = await mkdtemp(join(tmpdir(), 'berth-git-server-'))
  const token = `token-${randomUUID()}`
  const closed = new Set<string>()
  const behaviour: Behaviour = {
    slow: new Map(),
    oldProtocol: new Set(),
    redirect: () => null,
    answer: () => false,
  }
  const requests: GitServer['requests'] = []
  // Pushes of the tests themselves are neither slow nor counted.
  const pusher = randomUUID()

  const server = createServer(async (request, answer) => {
    const path = request.url ?? '/'
    if (passwordOf(request) === pusher) return serveGit(root, request, answer, 0)
    if (path.includes('git-receive-pack')) return askPassword(answer)
    requests.push({ method: request.method ?? '', path, authorization: request.headers.authorization ?? null })
    if (behaviour.answer(request, answer) || answersItself(path, answer)) return
    const location = behaviour.redirect(path)
    if (location !== null) return answer.writeHead(302, { location }).end()
    const repository = decodeURIComponent(path).split('.git')[0]!
    if (closed.has(repository) && passwordOf(request) !== token) return askPassword(answer)
    const folder = `${root}${repository}.git`
    if (behaviour.oldProtocol.has(folder)) request.headers['git-protocol'] = ''
    await serveGit(root, request, answer, behaviour.slow.get(folder) ?? 0)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const host = `127.0.0.1:${port}`

  return {
    port,
    host,
    url: `http://${host}`,
    token,
    behaviour,
    requests,
    async repository({
      name = `someone/project-${randomUUID().slice(0, 8)}`,
      files,
      private: isPrivate = false,
      seenAt = `http://${host}`,
    } = {}) {
      if (isPrivate) closed.add(`/${name}`)
      const url = `${seenAt}/${name}.git`
      const pushUrl = `http://pusher:${pusher}@${host}/${name}.git`
      const repository = new TestRepository(join(root, `${name}.git`), join(root, 'copies', name), url, () => pushUrl)
      await repository.create()
      if (files) await repository.push(files)
      return repository
    },
    async stop() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
      await rm(root, { recursive: true, force: true })
    },
  }
}

/** /status-<n>/... answers that status, /silent/... nothing at all. */
function answersItself(path: string, answer: ServerResponse): boolean {
  const status = /^\/status-(\d+)\//.exec(path)?.[1]
  if (status) answer.writeHead(Number(status), { 'content-type': 'text/html' }).end('as requested')
  return status !== undefined || path.startsWith('/silent/')
}

function askPassword(answer: ServerResponse): void {
  answer.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('A password is needed')
}

function passwordOf(request: IncomingMessage): string | null {
  const encoded = /^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1]
  return encoded ? Buffer.from(encoded, 'base64').toString().split(/:(.*)/s)[1]! : null
}
