import { startChild } from '../../../activities/child-process/child-program.ts'

// A process of the host that is killed while its child works; prints the child's id.
const [name, job] = process.argv.slice(2) as [string, string]
const child = startChild(name, ['ignore', 'ignore', 'ignore', 'ipc', name === 'snapshots' ? 'pipe' : 'ignore'])
if (name === 'snapshots') (child.stdio[4] as NodeJS.ReadableStream).resume()
if (job) child.send(JSON.parse(job), () => {})
process.send!(child.pid)
setInterval(() => {}, 60_000)
