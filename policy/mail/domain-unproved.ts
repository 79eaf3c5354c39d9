import type { MailTemplate } from './template.ts'

/** A custom domain whose records have been missing for some days. It is served on. */
export type DomainUnproved = { hostname: string; days: number }

export const domainUnproved: MailTemplate<DomainUnproved> = {
  'pt-BR': ({ hostname, days }) => ({
    subject: `Faltam os registros de DNS de ${hostname}`,
    text: `Há ${days} dias, nenhum registro de DNS comprova que o domínio ${hostname} é seu. Ele continua funcionando, mas outra conta que o comprovar pode assumi-lo, e o certificado pode não ser renovado.

Crie novamente um dos registros mostrados na aplicação, ou remova o domínio dela.`,
  }),
  'en-US': ({ hostname, days }) => ({
    subject: `The DNS records of ${hostname} are missing`,
    text: `For ${days} days, no DNS record has proved that the domain ${hostname} is yours. It still works, but another account that proves it can take it over, and its certificate may not be renewed.

Create one of the records that the application shows again, or remove the domain from the application.`,
  }),
  'es-ES': ({ hostname, days }) => ({
    subject: `Faltan los registros DNS de ${hostname}`,
    text: `Desde hace ${days} días, ningún registro DNS demuestra que el dominio ${hostname} es tuyo. Sigue funcionando, pero otra cuenta que lo demuestre puede quedárselo, y es posible que su certificado no se renueve.

Vuelve a crear uno de los registros que muestra la aplicación, o quítale el dominio.`,
  }),
  'zh-CN': ({ hostname, days }) => ({
    subject: `${hostname} 的 DNS 记录缺失`,
    text: `已有 ${days} 天没有任何 DNS 记录证明域名 ${hostname} 属于您。该域名仍可使用，但其他账户若能证明所有权便可接管它，其证书也可能无法续期。

请重新创建应用中显示的记录之一，或将该域名从应用中移除。`,
  }),
  'ja-JP': ({ hostname, days }) => ({
    subject: `${hostname} の DNS レコードが見つかりません`,
    text: `${days} 日間、ドメイン ${hostname} の所有を証明する DNS レコードが見つかっていません。ドメインは引き続き動作しますが、所有を証明した別のアカウントに移る可能性があり、証明書が更新されないこともあります。

アプリケーションに表示されるレコードのいずれかを再度作成するか、ドメインをアプリケーションから削除してください。`,
  }),
  'fr-FR': ({ hostname, days }) => ({
    subject: `Les enregistrements DNS de ${hostname} ont disparu`,
    text: `Depuis ${days} jours, aucun enregistrement DNS ne prouve que le domaine ${hostname} est le vôtre. Il fonctionne encore, mais un autre compte qui le prouve peut le reprendre, et son certificat risque de ne pas être renouvelé.

Recréez l'un des enregistrements affichés par l'application, ou retirez-lui le domaine.`,
  }),
  'de-DE': ({ hostname, days }) => ({
    subject: `Die DNS-Einträge von ${hostname} fehlen`,
    text: `Seit ${days} Tagen belegt kein DNS-Eintrag, dass die Domain ${hostname} Ihnen gehört. Sie funktioniert weiterhin, aber ein anderes Konto, das sie belegt, kann sie übernehmen, und ihr Zertifikat wird möglicherweise nicht erneuert.

Legen Sie einen der Einträge, die die Anwendung zeigt, wieder an, oder entfernen Sie die Domain von ihr.`,
  }),
  'it-IT': ({ hostname, days }) => ({
    subject: `Mancano i record DNS di ${hostname}`,
    text: `Da ${days} giorni nessun record DNS dimostra che il dominio ${hostname} è tuo. Funziona ancora, ma un altro account che lo dimostra può prenderlo, e il suo certificato potrebbe non essere rinnovato.

Crea di nuovo uno dei record indicati dall'applicazione, oppure rimuovi il dominio da essa.`,
  }),
}
