import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { imagesToWarm } from '../../../policy/hosts/warm-images.ts'

test('hosts prepare the first languages unless a setting names others or none', t => {
  const languages = (WARM_IMAGES?: string) => parseConfig(WARM_IMAGES ? { WARM_IMAGES } : {}, '/').host.warmLanguages
  t.deepEqual(languages(), ['javascript', 'python', 'static'])
  t.deepEqual(languages('go, python,go'), ['go', 'python'])
  t.is(languages('none'), null)
  for (const wrong of ['cobol', 'python,none', ','])
    t.throws(() => languages(wrong), {
      message: /^The setting WARM_IMAGES is ".*"; it must be `none`, or some of java/,
    })
})

test('images of used runtimes come first, those in which they are built before those in which they run, each once', t => {
  const used = [
    { language: 'ruby', version: '3.4' },
    { language: 'javascript', version: '22' },
  ]
  t.deepEqual(imagesToWarm(used, ['javascript', 'ruby']), [
    'ruby:3.4-bookworm',
    'ruby:3.4-slim-bookworm',
    'berth/node:22',
    'ruby:3.3-bookworm',
    'ruby:3.3-slim-bookworm',
  ])
  t.deepEqual(imagesToWarm([], []), [])
})

test('a runtime that is no longer on offer is not prepared', t => {
  const used = [
    { language: 'cobol', version: '1' },
    { language: 'python', version: '2.7' },
    { language: 'constructor', version: '1' },
  ]
  t.deepEqual(imagesToWarm(used, ['python']), ['berth/python:3.11'])
})
