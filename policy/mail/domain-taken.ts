import type { MailTemplate } from './template.ts'

/** A custom domain that another account has proved, and this one no longer. */
export type DomainTaken = { hostname: string }

export const domainTaken: MailTemplate<DomainTaken> = {
  'pt-BR': ({ hostname }) => ({
    subject: `O domínio ${hostname} passou para outra conta`,
    text: `Outra conta comprovou no DNS que o domínio ${hostname} é dela, e os seus registros não estão mais lá. Por isso o domínio foi removido das suas aplicações, que continuam acessíveis nos próprios subdomínios.

Se o domínio é seu, verifique quem tem acesso ao seu provedor de DNS, remova o registro alheio e defina o domínio novamente.`,
  }),
  'en-US': ({ hostname }) => ({
    subject: `The domain ${hostname} went to another account`,
    text: `Another account has proved in DNS that the domain ${hostname} belongs to it, and your DNS records for it no longer exist. The domain was therefore removed from your applications, which are still available at their subdomains.

If the domain is yours, check who has access to your DNS provider, remove the other record, and set the domain again.`,
  }),
  'es-ES': ({ hostname }) => ({
    subject: `El dominio ${hostname} ha pasado a otra cuenta`,
    text: `Otra cuenta ha demostrado en el DNS que el dominio ${hostname} le pertenece, y tus registros ya no están. Por eso se ha eliminado de tus aplicaciones, que siguen disponibles en sus subdominios.

Si el dominio es tuyo, comprueba quién tiene acceso a tu proveedor de DNS, elimina el registro ajeno y vuelve a configurar el dominio.`,
  }),
  'zh-CN': ({ hostname }) => ({
    subject: `域名 ${hostname} 已转到其他账户`,
    text: `另一个账户已在 DNS 中证明域名 ${hostname} 归其所有，而您的记录已不存在。因此该域名已从您的应用中移除。应用仍可通过其子域名访问。

如果该域名属于您，请检查谁可以访问您的 DNS 服务商，删除对方的记录，然后重新设置该域名。`,
  }),
  'ja-JP': ({ hostname }) => ({
    subject: `ドメイン ${hostname} は別のアカウントに移りました`,
    text: `別のアカウントがドメイン ${hostname} の所有を DNS で証明し、あなたのレコードはなくなっています。そのため、このドメインはあなたのアプリケーションから削除されました。アプリケーションには引き続きサブドメインでアクセスできます。

ドメインがご自身のものである場合は、DNS プロバイダーにアクセスできる人を確認し、相手のレコードを削除してから、ドメインを再度設定してください。`,
  }),
  'fr-FR': ({ hostname }) => ({
    subject: `Le domaine ${hostname} est passé à un autre compte`,
    text: `Un autre compte a prouvé dans le DNS que le domaine ${hostname} lui appartient, et vos enregistrements n'y sont plus. Le domaine a donc été retiré de vos applications, qui restent accessibles à leurs sous-domaines.

Si ce domaine est le vôtre, vérifiez qui a accès à votre fournisseur DNS, supprimez l'autre enregistrement et définissez de nouveau le domaine.`,
  }),
  'de-DE': ({ hostname }) => ({
    subject: `Die Domain ${hostname} ist an ein anderes Konto übergegangen`,
    text: `Ein anderes Konto hat im DNS belegt, dass ihm die Domain ${hostname} gehört, und Ihre Einträge sind dort nicht mehr vorhanden. Die Domain wurde deshalb von Ihren Anwendungen entfernt, die unter ihren Subdomains erreichbar bleiben.

Falls die Domain Ihnen gehört, prüfen Sie, wer Zugang zu Ihrem DNS-Anbieter hat, entfernen Sie den fremden Eintrag, und setzen Sie die Domain erneut.`,
  }),
  'it-IT': ({ hostname }) => ({
    subject: `Il dominio ${hostname} è passato a un altro account`,
    text: `Un altro account ha dimostrato nel DNS che il dominio ${hostname} gli appartiene, e i tuoi record non ci sono più. Per questo il dominio è stato rimosso dalle tue applicazioni, che restano raggiungibili ai loro sottodomini.

Se il dominio è tuo, verifica chi ha accesso al tuo provider DNS, elimina l'altro record e imposta di nuovo il dominio.`,
  }),
}
