// Loads the sources as `./berth test` has transpiled them (cli/test/transpiled-sources.ts), in place of `--import=tsx`: in this thread, from
// one file, and as V8 has compiled them before. Node's loader of ES modules asks another thread about each import, and compiles each anew.
const { openSync, readFileSync, readSync } = require('node:fs')
const Module = require('node:module')
const { dirname, join, resolve } = require('node:path')
const { fileURLToPath, pathToFileURL } = require('node:url')
const { Script, constants } = require('node:vm')
const { isMainThread } = require('node:worker_threads')

const checkout = resolve(__dirname, '../../..')
const { TEST_TRANSPILED: folder, TEST_CODE_CACHE: records } = process.env

/** Scripts of this process by their paths, if it records what V8 makes of them. */
const scripts = new Map()

/** What a process of a test file runs: a module of ours, with ava's packages in it (cli/test/bundled-ava.ts). */
const worker = 'node_modules/ava/lib/worker/base.js'

/** Ava's module, which holds more than what it gives to `require`. */
let ava

/** Ava calls it before it loads a test file (ava.config.js). */
module.exports = async () => {
  ava ??= await import('ava')
}
module.exports.scripts = scripts

/** Node refuses `import()` in a function that comes from a record; here it is Node's own. */
globalThis.__import = address => import(address)

if (folder && isMainThread) install()

function install() {
  const { modules } = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8'))
  const code = pieces('code')
  const compile = compiler()
  const packages = Module.createRequire(join(checkout, 'package.json'))
  const loaded = new Map()

  const load = path => {
    const known = loaded.get(path)
    if (known) return known.exports
    const place = modules[path]
    if (!place)
      throw new Error(`${path} is not transpiled: only files of this checkout are that were there when the run began`)
    const [from, to, encoding, url] = place
    const filename = join(checkout, path)
    const near = dirname(path)
    const meta = { url: url ?? pathToFileURL(filename).href, dirname: dirname(filename), filename }
    meta.resolve = name => pathToFileURL(packages.resolve(name)).href
    const module = { exports: {} }
    loaded.set(path, module)
    try {
      const require = name =>
        name[0] === '.'
          ? load(join(near, name))
          : name.startsWith('file:')
            ? loadFile(name)
            : (name === 'ava' && ava) || packages(name)
      // A test file that waits for something at its top level is a promise, for which ava waits.
      const waits = compile(filename, code(from, to).toString(encoding))(module, require, meta, ...interop)
      if (waits) module.exports = waits
    } catch (error) {
      loaded.delete(path)
      throw error
    }
    return module.exports
  }
  const loadFile = url => {
    const path = fileURLToPath(url)
    return path.endsWith('.ts') ? load(path.slice(checkout.length + 1)) : packages(path)
  }

  Module._extensions['.ts'] = (module, filename) => {
    module.exports = load(filename.slice(checkout.length + 1))
  }
  const { runMain } = Module
  Module.runMain = path => {
    if (path !== join(checkout, worker)) return runMain(path)
    void load(worker)
    ava = loaded.get(worker).ava
  }
  compilePackages(compile)
  process.setSourceMapsEnabled(false)
  Error.prepareStackTrace = (error, frames) =>
    `${error}${frames.map(frame => `\n    at ${inSource(frame, modules)}`).join('')}`
}

/** How esbuild joins modules (its helpers `__toESM` and so on), without a copy of every module for each that imports it. */
const asModules = new WeakMap()
const interop = [
  /** `import * as`, and `default`: what is no ES module by origin is its own default. */
  mod => {
    if (mod === null || (typeof mod !== 'object' && typeof mod !== 'function')) return { default: mod }
    if (mod.__esModule || mod[Symbol.toStringTag] === 'Module') return mod
    if (!asModules.has(mod))
      asModules.set(mod, Object.defineProperty(copied({}, mod), 'default', { value: mod, enumerable: true }))
    return asModules.get(mod)
  },
  exports => Object.defineProperty(exports, '__esModule', { value: true }),
  (exports, all) => {
    for (const name in all)
      Object.defineProperty(exports, name, { get: all[name], enumerable: true, configurable: true })
  },
  (exports, mod) => copied(exports, mod),
]

function copied(target, mod) {
  for (const name of Object.getOwnPropertyNames(mod))
    if (!Object.hasOwn(target, name) && name !== 'default')
      Object.defineProperty(target, name, {
        get: () => mod[name],
        enumerable: Object.getOwnPropertyDescriptor(mod, name)?.enumerable ?? true,
      })
  return target
}

/** Compiles a function expression, from what V8 has made of it in the process that recorded it if there is that. */
function compiler() {
  const compiled = compiledBefore()
  return (filename, text) => {
    const script = new Script(text, {
      filename,
      cachedData: compiled(filename),
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    })
    if (records) scripts.set(filename, script)
    return script.runInThisContext()
  }
}

function compiledBefore() {
  if (records) return () => undefined
  const places = JSON.parse(readFileSync(join(folder, 'compiled.json'), 'utf8'))
  const bytes = pieces('compiled')
  return path => places[path] && bytes(...places[path])
}

/** Reads pieces of a large file, of which most processes need few. */
function pieces(name) {
  const descriptor = openSync(join(folder, name))
  return (from, to) => {
    const piece = Buffer.allocUnsafeSlow(to - from)
    readSync(descriptor, piece, 0, to - from, from)
    return piece
  }
}

/** Packages that are no ES modules are compiled by the same means; otherwise it is what Node does. */
function compilePackages(compile) {
  const { _compile: compileByNode } = Module.prototype
  Module.prototype._compile = function (content, filename, format) {
    if (format === 'module') return compileByNode.call(this, content, filename, format)
    const text = content.startsWith('#!') ? `//${content}` : content
    const wrapped = compile(filename, Module.wrap(text))
    const require = id => this.require(id)
    require.resolve = (request, options) => Module._resolveFilename(request, this, false, options)
    require.main = process.mainModule
    require.extensions = Module._extensions
    require.cache = Module._cache
    return Reflect.apply(wrapped, this.exports, [this.exports, require, this, filename, dirname(filename)])
  }
}

const maps = new Map()

/** A line of a stack, in the source file. */
function inSource(frame, modules) {
  const text = String(frame)
  const filename = frame.getFileName()
  const path = filename?.startsWith(checkout) && filename.slice(checkout.length + 1)
  if (!path || !modules[path] || path === worker) return text
  if (!maps.has(path))
    maps.set(path, new Module.SourceMap(JSON.parse(readFileSync(join(folder, `${path}.map`), 'utf8'))))
  const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()]
  const { originalLine, originalColumn } = maps.get(path).findEntry(line - 1, column - 1)
  return originalLine === undefined
    ? text
    : text.replace(`${filename}:${line}:${column}`, `${filename}:${originalLine + 1}:${originalColumn + 1}`)
}
