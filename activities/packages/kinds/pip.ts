import { rewriteSimpleHtml, rewriteSimpleJson } from '../../../policy/packages/documents.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

const pageJson = 'application/vnd.pypi.simple.v1+json'
const pageHtml = 'application/vnd.pypi.simple.v1+html'

/** Pages of a Python index, whose files may lie anywhere. */
export const pip = ({ base, variant, signLink }: RegistryParts): KindPaths => ({
  at(path, accept) {
    if (!/^[\w.-]+\/$/.test(path)) return null
    const isJson = accept.includes(pageJson)
    return {
      kind: 'document',
      document: {
        url: base.href + path,
        accept: isJson ? `${pageJson}, ${pageHtml};q=0.1, text/html;q=0.01` : `${pageHtml}, text/html;q=0.1`,
        variant,
        rewrite: (text, type, at) =>
          type.includes('json') ? rewriteSimpleJson(text, at, signLink) : rewriteSimpleHtml(text, at, signLink),
      },
    }
  },
})
