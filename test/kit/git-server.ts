import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serveGit } from './git-backend.ts'
import { type Files, TestRepository } from './git-repository.ts'

export type { Files, Hook, Pushed, TestRepository } from './git-repository.ts'

export interface GitServer {
  port: number
  /** `host:port`, as GIT_ALLOWED_HOSTS takes it. */
  host: string
  url: string
  /** A new repository, with a first push when files are given. Private ones want the server's token as password. */
  repository(options?: { name?: string; files?: Files; private?: boolean }): Promise<TestRepository>
  /** Password of private repositories. */
  token: string
  /** How the server behaves from now on; assign to change. */
  behaviour: Behaviour
  /** Every request so far. */
  requests: { method: string; path: string; authorization: string | null }[]
  stop(): Promise<void>
}

export interface Behaviour {
  /** Answers are sent at this pace; 0 = at once. */
  bytesPerSecond: number
  /** Where a request is sent on to, by its path and query; null = it is served. */
  redirect: (path: string) => string | null
  /** Answers every request with this status instead of serving it; null = it is served. */
  status: number | null
  /** Keeps every request without an answer. */
  silent: boolean
}

/** A git server on loopback: git's own http-backend behind node:http, with repositories in a folder of its own. */
export async function startGitServer(): Promise<GitServer> {
  const root = await mkdtemp(join(tmpdir(), 'berth-git-server-'))
  const token = `token-${randomUUID()}`
  const closed = new Set<string>()
  const behaviour: Behaviour = { bytesPerSecond: 0, redirect: () => null, status: null, silent: false }
  const requests: GitServer['requests'] = []
  // Pushes of the tests themselves are neither slow nor counted.
  const pusher = randomUUID()

  const server = createServer(async (request, answer) => {
    const path = request.url ?? '/'
    if (passwordOf(request) === pusher) return serveGit(root, request, answer, 0)
    if (path.includes('git-receive-pack')) return askPassword(answer)
    requests.push({ method: request.method ?? '', path, authorization: request.headers.authorization ?? null })
    if (behaviour.silent) return
    if (behaviour.status !== null) return answer.writeHead(behaviour.status).end('as told')
    const location = behaviour.redirect(path)
    if (location !== null) return answer.writeHead(302, { location }).end()
    const repository = decodeURIComponent(path).split('.git')[0]!
    if (closed.has(repository) && passwordOf(request) !== token) return askPassword(answer)
    await serveGit(root, request, answer, behaviour.bytesPerSecond)
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
    async repository({ name = `someone/project-${randomUUID().slice(0, 8)}`, files, private: isPrivate = false } = {}) {
      if (isPrivate) closed.add(`/${name}`)
      const url = `http://${host}/${name}.git`
      const pushUrl = url.replace('http://', `http://pusher:${pusher}@`)
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

function askPassword(answer: ServerResponse): void {
  answer.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('A password is needed')
}

function passwordOf(request: IncomingMessage): string | null {
  const encoded = /^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1]
  return encoded ? Buffer.from(encoded, 'base64').toString().split(/:(.*)/s)[1]! : null
}
