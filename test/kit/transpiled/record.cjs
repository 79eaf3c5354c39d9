// Loads files, and what ava loads in every process of a test file, and writes what V8 has made of all that:
// `node --require=./register.cjs record.cjs <files...>`.
const { readFileSync, writeFileSync } = require('node:fs')
const Module = require('node:module')
const { join } = require('node:path')
const { pathToFileURL } = require('node:url')
const { scripts } = require('./register.cjs')

/** Stands for ava, which lets no other program load it. */
const anything = new Proxy(() => anything, { get: (_, name) => (typeof name === 'symbol' ? undefined : anything) })
const load = Module._load
Module._load = (name, ...others) => (name === 'ava' ? anything : load(name, ...others))

async function record() {
  const manifest = join(__dirname, '../../../node_modules/ava/package.json')
  const ofAva = Module.createRequire(manifest)
  const { dependencies } = JSON.parse(readFileSync(manifest, 'utf8'))
  for (const name of Object.keys(dependencies)) await import(pathToFileURL(ofAva.resolve(name)).href)
  for (const file of process.argv.slice(2)) require(file)
  const parts = []
  const places = {}
  let end = 0
  for (const [path, script] of scripts) {
    const from = end
    parts.push(script.createCachedData())
    end += parts.at(-1).length
    places[path] = [from, end]
  }
  writeFileSync(join(process.env.TEST_TRANSPILED, 'compiled'), Buffer.concat(parts))
  writeFileSync(join(process.env.TEST_TRANSPILED, 'compiled.json'), JSON.stringify(places))
  process.exit()
}

void record()
