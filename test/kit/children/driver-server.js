// Runs examples of database drivers. With the path of one it counts two visits; without, it serves them at $PORT: /visit/<name> in this
// process, with the connections that it has, and /apart/<name>?<variable>=<value> in another one, with other variables.
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import { fileURLToPath, pathToFileURL } from 'node:url'

async function countTwice(path) {
  const { countVisit, close } = await import(pathToFileURL(path).href)
  console.log(JSON.stringify([Number(await countVisit()), Number(await countVisit())]))
  await close()
}

const visit = async name => ({ visits: Number(await (await import(`./${name}.js`)).countVisit()) })

const apart = (name, variables) =>
  new Promise(resolve => {
    const options = {
      env: { ...process.env, ...Object.fromEntries(variables) },
      timeout: 120_000,
      killSignal: 'SIGKILL',
    }
    execFile(process.execPath, [fileURLToPath(import.meta.url), `${name}.js`], options, (error, stdout, stderr) =>
      resolve({ code: error ? String(error.code ?? error.signal) : '0', stdout, stderr }),
    )
  })

const [path] = process.argv.slice(2)
if (path)
  countTwice(path).catch(error => {
    console.error(error)
    process.exit(1)
  })
else
  createServer(async (request, answer) => {
    const { pathname, searchParams } = new URL(request.url, 'http://driver')
    const [how, name] = pathname.slice(1).split('/')
    const outcome = name ? (how === 'apart' ? apart(name, searchParams) : visit(name)) : { serves: true }
    try {
      answer.end(JSON.stringify(await outcome))
    } catch (error) {
      answer.end(JSON.stringify({ error: `${error.message} ${error.code ?? ''}` }))
    }
  }).listen(process.env.PORT)
