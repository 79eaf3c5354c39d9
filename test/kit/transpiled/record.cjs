// Loads files, and ava's worker as every process of a test file does, and writes what V8 has made of all that:
// `node --require=./register.cjs record.cjs <files...>`.
const { writeFileSync } = require('node:fs')
const Module = require('node:module')
const { join } = require('node:path')
const { scripts } = require('./register.cjs')

/** Stands for ava, which lets no other program load it. */
const anything = new Proxy(() => anything, { get: (_, name) => (typeof name === 'symbol' ? undefined : anything) })
const load = Module._load
Module._load = (name, ...others) => (name === 'ava' ? anything : load(name, ...others))

for (const file of process.argv.slice(2)) require(file)

// Ava's worker takes this process for its child, and waits for the name of its file.
process.send = () => true
process.channel = { ref() {}, unref() {} }
Module.runMain(join(__dirname, '../../../node_modules/ava/lib/worker/base.js'))

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
