"""Lists in pages, as clients walk through them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, requests  # noqa: E402


class Lists(ApiCase):
    def walk(self, path, limit):
        """All ids, page by page: `after` is the last item's id."""
        ids, after = [], ""
        while True:
            page = self.call("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}{after}").json
            self.assertEqual(page["object"], "list")
            self.assertIn(page["has_more"], (True, False))
            got = [item["id"] for item in page["data"]]
            self.assertEqual((page["first_id"], page["last_id"]), (got[0], got[-1]) if got else (None, None))
            self.assertLessEqual(len(got), limit)
            ids += got
            if not page["has_more"]:
                return ids
            after = f"&after={got[-1]}"

    def bad(self, path, param):
        reply = self.call("GET", path)
        self.assertEqual((reply.status, reply.error["param"]), (400, param), path)

    def test_files(self):
        files = [self.uploaded(requests(1), purpose=purpose) for purpose in ["batch"] * 5 + ["user_data"] * 2]
        for limit in (1, 2, 3, 7, 100):
            self.assertEqual(self.walk("/v1/files", limit), files[::-1])
            self.assertEqual(self.walk("/v1/files?order=asc", limit), files)
            self.assertEqual(self.walk("/v1/files?purpose=batch", limit), files[4::-1])
        self.assertEqual([f["id"] for f in self.call("GET", "/v1/files").json["data"]], files[::-1])
        self.assertEqual(self.walk("/v1/files?purpose=vision", 10), [])
        for query, param in (("limit=0", "limit"), ("limit=10001", "limit"), ("limit=x", "limit"),
                             ("order=up", "order"), ("after=file-none", "after")):
            self.bad(f"/v1/files?{query}", param)

    def test_batches(self):
        self.assertEqual(self.walk("/v1/batches", 10), [])
        file = self.uploaded(requests(1))
        batches = [self.created(file, metadata={"n": str(n)}) for n in range(23)]
        listed = self.walk("/v1/batches", 100)
        self.assertEqual(sorted(listed), sorted(batches))
        times = [self.batch(b)["created_at"] for b in listed]
        self.assertEqual(times, sorted(times, reverse=True))
        for limit in (1, 5, 22, 23):
            self.assertEqual(self.walk("/v1/batches", limit), listed)
        self.assertEqual(len(self.call("GET", "/v1/batches").json["data"]), 20)
        for batch in batches:
            self.until(batch, "in_progress")
        self.assertEqual(self.walk("/v1/batches", 100), listed)
        for query in ("limit=0", "limit=101"):
            self.bad(f"/v1/batches?{query}", "limit")
        self.bad("/v1/batches?after=batch_000000000000", "after")

    def test_outputs_are_listed_once_their_length_is_known(self):
        self.start_worker()
        batch = self.until(self.created(self.uploaded(requests(2))), "completed")
        self.call("GET", f"/v1/files/{batch['output_file_id']}")
        listed = self.call("GET", "/v1/files?purpose=batch_output").json["data"]
        self.assertEqual([f["id"] for f in listed], [batch["output_file_id"]])

    def test_models(self):
        self.assertEqual(self.call("GET", "/v1/models").json["data"], [])
        reply = self.call("GET", "/v1/models/m")
        self.assertEqual((reply.status, reply.error["code"]), (404, "model_not_found"))
        self.start_worker(models="m,org/name")
        models = self.call("GET", "/v1/models").json
        self.assertEqual([m["id"] for m in models["data"]], ["m", "org/name"])
        for model in models["data"]:
            self.assertEqual(self.call("GET", f"/v1/models/{model['id']}").json, model)


if __name__ == "__main__":
    unittest.main()
