"""Plants each kind of bad include in a small tree, and expects that arrows.py finds it, and only it."""
import pathlib
import shutil
import tempfile
import unittest

import arrows

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Arrows(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="arrows-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write(arrows.PAGE, (ROOT / arrows.PAGE).read_text(encoding="utf-8"))
        for header in ("base/status.h", "tensor/header.h", "ipc/fd.h", "server/broker.h", "client/client.h", "proto/records.h"):
            self.write("tensorbroker/" + header, "#include <string>\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def assert_found(self, path, text, reason):
        self.write(path, text)
        findings = arrows.check(self.root)
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(path), findings)
        self.assertIn(reason, findings[0])

    def test_a_clean_tree_has_no_finding(self):
        self.write("tensorbroker/server/holds.cc", '#include "tensorbroker/ipc/fd.h"\n#include <vector>\n')
        self.write("tensorbroker/server/service.cc", '#include <grpcpp/grpcpp.h>\n#include "tensorbroker/v1/broker.pb.h"\n')
        self.assertEqual(arrows.check(self.root), [])

    def test_server_including_client_is_found(self):
        self.assert_found("tensorbroker/server/holds.cc", '#include "tensorbroker/client/client.h"\n', "server may not include")

    def test_client_including_server_is_found(self):
        self.assert_found("tensorbroker/client/cache.cc", '#  include "tensorbroker/server/broker.h"\n', "client may not include")

    def test_an_arrow_upwards_is_found(self):
        self.assert_found("tensorbroker/ipc/map.cc", '#include "tensorbroker/tensor/header.h"\n', "ipc may not include")

    def test_an_example_on_internals_is_found(self):
        self.assert_found("examples/views/main.cc", '#include "tensorbroker/ipc/fd.h"\n', "may not include")

    def test_grpc_in_a_rule_class_is_found(self):
        self.assert_found("tensorbroker/server/holds.h", "#include <grpcpp/server.h>\n", "only in")

    def test_a_generated_header_in_the_client_is_found(self):
        self.assert_found("tensorbroker/client/tensor.cc", '#include "tensorbroker/v1/types.pb.h"\n', "only in")

    def test_json_outside_the_command_line_is_found(self):
        self.assert_found("tensorbroker/server/catalog.cc", "#include <nlohmann/json.hpp>\n", "only in")

    def test_an_include_that_is_not_there_is_found(self):
        self.assert_found("tensorbroker/server/a.cc", '#include "tensorbroker/base/gone.h"\n', "there is no")

    def test_a_folder_outside_the_table_is_found(self):
        self.assert_found("tensorbroker/misc/a.cc", "#include <string>\n", "not in the table")

    def test_a_relative_include_is_found(self):
        self.assert_found("tensorbroker/server/a.cc", '#include "broker.h"\n', "from the root")

    def test_a_link_against_the_arrows_is_found(self):
        self.assert_found("tensorbroker/client/CMakeLists.txt", "tb_library(client\n  SOURCES a.cc\n  DEPS base server)\n",
                          "may not link to server")

    def test_a_leak_through_a_public_header_is_found(self):
        self.write("tensorbroker/client/client.h", '#include "tensorbroker/proto/records.h"\n')
        self.assert_found("tensorbroker/proto/records.h", '#include "tensorbroker/v1/types.pb.h"\n', "installed (from")


if __name__ == "__main__":
    unittest.main()
